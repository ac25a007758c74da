#include "gateway/dispatcher.hpp"

#include <spdlog/spdlog.h>

namespace ebb::gateway {
namespace {

std::string text_of_json(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool body_is_empty(const std::string& body) {
  return body.find_first_not_of(" \t\r\n") == std::string::npos;
}

}  // namespace

HttpAnswer answer_of(const Refusal& refusal) {
  HttpAnswer answer;
  answer.status = refusal.http_status;
  answer.request_id = new_request_id();
  answer.body = text_of_json({{"Code", refusal.code},
                              {"Message", refusal.message},
                              {"RequestId", answer.request_id},
                              {"HttpStatusCode", refusal.http_status}});
  return answer;
}

Result<Dispatcher::Prepared> Dispatcher::prepare(const HttpRequest& request, std::int64_t now_ms) {
  if (request.body.size() > kBodyBytesMax) {
    return Refusal{"RequestTooLarge",
                   "the body has " + std::to_string(request.body.size()) + " bytes; at most " +
                       std::to_string(kBodyBytesMax) + " are allowed",
                   413};
  }
  auto caller = authentication_.caller_of(request, now_ms);
  if (!caller) return caller.refusal();
  auto route = table_.route(request.method, request.path, request.header("x-acs-version"));
  if (!route) return route.refusal();
  const api::Operation& operation = *route->operation;
  if (route->entry == nullptr) {
    return Refusal{"OperationNotSupported",
                   "operation " + operation.name + " is not supported by Ebb", 501};
  }
  const Entry& entry = *route->entry;
  const std::string action = request.header("x-acs-action");
  if (!action.empty() && action != operation.name) {
    return Refusal{"InvalidAction",
                   "x-acs-action is " + api::shown(action) + ", but method and path are those of " +
                       operation.name,
                   400};
  }
  if (request.body.size() > entry.body_bytes_max) {
    return Refusal{"RequestTooLarge",
                   "the request of " + operation.name + " has " +
                       std::to_string(request.body.size()) + " bytes; at most " +
                       std::to_string(entry.body_bytes_max) + " are allowed",
                   413};
  }
  Prepared prepared{entry.handler, {}};
  const api::Catalogue& catalogue = api::Catalogue::instance();
  auto query = catalogue.check_query(operation, request.query, entry.query);
  if (!query) return query.refusal();
  prepared.call.query = std::move(*query);
  if (!body_is_empty(request.body)) {
    auto body = api::parse_json(request.body);
    if (!body) return body.refusal();
    if (auto checked = catalogue.check_body(operation, *body, entry.body); !checked)
      return checked.refusal();
    prepared.call.body = std::move(*body);
  }
  prepared.call.path = std::move(route->path);
  prepared.call.user = caller->user;
  prepared.call.client_token = request.header("x-ebb-client-token");
  if (prepared.call.client_token.size() > 128 ||
      prepared.call.client_token.find_first_of("/#") != std::string::npos) {
    return Refusal{"InvalidParameter",
                   "x-ebb-client-token: at most 128 bytes without `/` and `#` are allowed", 400};
  }
  return prepared;
}

void Dispatcher::dispatch(const HttpRequest& request, std::int64_t now_ms,
                          const Answered& answered) {
  auto prepared = prepare(request, now_ms);
  if (!prepared) return answered(answer_of(prepared.refusal()));
  spawn<Result<Json>>(
      prepared->handler(desk_, std::move(prepared->call)),
      [answered](Result<Json>* result, const std::string& error) {
        if (result == nullptr) {
          spdlog::error("operation failed error={}", api::plain_text(error));
          return answered(answer_of({"InternalError", "the request failed in the gateway", 500}));
        }
        if (!*result) return answered(answer_of(result->refusal()));
        HttpAnswer answer;
        answer.request_id = new_request_id();
        (**result)["RequestId"] = answer.request_id;
        answer.body = text_of_json(**result);
        answered(std::move(answer));
      });
}

}  // namespace ebb::gateway
