// From an HTTP request to an operation's answer: authentication, route, limits, checks, then the
// operation. Knows no socket, so that it can be tested without one.
#pragma once
#include <functional>
#include <string>

#include "gateway/authentication.hpp"
#include "gateway/desk.hpp"
#include "gateway/operations/operation.hpp"

namespace ebb::gateway {

struct HttpAnswer {
  int status = 200;
  std::string request_id;
  std::string body;  // JSON
};

class Dispatcher {
 public:
  using Answered = std::function<void(HttpAnswer)>;
  Dispatcher(Desk& desk, Authentication& authentication)
      : desk_(desk), authentication_(authentication) {}
  /// Calls `answered` once, perhaps before it returns.
  void dispatch(const HttpRequest& request, std::int64_t now_ms, const Answered& answered);

 private:
  struct Prepared {
    Handler handler;
    Call call;
  };
  Result<Prepared> prepare(const HttpRequest& request, std::int64_t now_ms);

  Desk& desk_;
  Authentication& authentication_;
  OperationTable table_;
};

HttpAnswer answer_of(const Refusal& refusal);

}  // namespace ebb::gateway
