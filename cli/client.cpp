#include "cli/client.hpp"

#include <curl/curl.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace ebb::cli {
namespace {

constexpr std::size_t kAnswerBytesMax = 64 * 1'048'576;
constexpr long kConnectTimeoutMs = 3'000;
constexpr long kTimeoutMs = 60'000;
constexpr int kPageSize = 500;
constexpr int kPagesMax = 2'000;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  return line;
}

std::size_t append(char* data, std::size_t size, std::size_t count, void* out) {
  auto* text = static_cast<std::string*>(out);
  if (text->size() + size * count > kAnswerBytesMax) return 0;
  text->append(data, size * count);
  return size * count;
}

}  // namespace

std::string encoded(const std::string& text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~') {
      out.push_back(c);
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

Result<Access> find_access(const std::string& server, const std::string& data_dir) {
  Access access;
  std::string data = data_dir.empty() ? environment("EBB_DATA") : data_dir;
  if (data.empty()) data = ".ebb";
  access.server = server.empty() ? environment("EBB_SERVER") : server;
  if (access.server.empty()) access.server = first_line(data + "/address");
  if (access.server.empty()) access.server = "127.0.0.1:7070";
  if (access.server.find("://") == std::string::npos) access.server = "http://" + access.server;
  while (access.server.ends_with('/')) access.server.pop_back();
  access.token = environment("EBB_TOKEN");
  if (access.token.empty()) access.token = first_line(data + "/token");
  if (access.token.empty()) {
    return Refusal{
        "NoToken",
        "no token: set EBB_TOKEN, or name ebbd's data directory with --data-dir or EBB_DATA (" +
            data + "/token cannot be read)",
        401};
  }
  return access;
}

struct Client::Curl {
  CURL* handle = nullptr;
  curl_slist* headers = nullptr;
};

Client::Client(Access access) : curl_(std::make_unique<Curl>()), access_(std::move(access)) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  curl_->handle = curl_easy_init();
  EBB_ASSERT(curl_->handle != nullptr);
  curl_->headers = curl_slist_append(nullptr, ("Authorization: Bearer " + access_.token).c_str());
  curl_->headers = curl_slist_append(curl_->headers, "Content-Type: application/json");
  curl_->headers = curl_slist_append(curl_->headers, "Expect:");
}

Client::~Client() {
  curl_slist_free_all(curl_->headers);
  curl_easy_cleanup(curl_->handle);
}

Result<Json> Client::call(const std::string& method, const std::string& path, const Query& query,
                          const std::string& body) {
  std::string url = access_.server + path;
  char separator = '?';
  for (const auto& [name, value] : query) {
    url += separator + encoded(name) + "=" + encoded(value);
    separator = '&';
  }
  CURL* handle = curl_->handle;
  std::string answer;
  curl_easy_reset(handle);
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, method.c_str());
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, curl_->headers);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_NOPROXY, "127.0.0.1,localhost,::1");
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, kTimeoutMs);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &answer);
  if (!body.empty() || method == "POST") {
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, method.c_str());
  }
  const CURLcode code = curl_easy_perform(handle);
  if (code != CURLE_OK) {
    return Refusal{"Unreachable",
                   "no answer from " + access_.server + ": " + curl_easy_strerror(code), 0};
  }
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  Json json = Json::parse(answer, nullptr, false);
  if (status >= 200 && status < 300 && json.is_object()) return json;
  if (json.is_object() && json.contains("Message") && json["Message"].is_string()) {
    return Refusal{json.value("Code", "Refused"), json["Message"], static_cast<int>(status)};
  }
  return Refusal{
      "BadAnswer",
      access_.server + " gave HTTP status " + std::to_string(status) + " without JSON: is it ebbd?",
      static_cast<int>(status)};
}

Result<Json> Client::get(const std::string& path, const Query& query) {
  return call("GET", path, query, "");
}
Result<Json> Client::post(const std::string& path, const Json& body, const Query& query) {
  return call("POST", path, query, body.dump(-1, ' ', false, Json::error_handler_t::replace));
}
Result<Json> Client::put(const std::string& path, const Json& body, const Query& query) {
  return call("PUT", path, query,
              body.is_null() ? "" : body.dump(-1, ' ', false, Json::error_handler_t::replace));
}
Result<Json> Client::remove(const std::string& path) { return call("DELETE", path, {}, ""); }

Result<Json> Client::get_all(const std::string& path, const std::string& field, Query query) {
  Json all = Json::array();
  query.emplace_back("PageSize", std::to_string(kPageSize));
  query.emplace_back("PageNumber", "");
  for (int page = 1; page <= kPagesMax; ++page) {
    query.back().second = std::to_string(page);
    auto answer = get(path, query);
    if (!answer) return answer.refusal();
    if (!answer->contains(field) || !(*answer)[field].is_array()) break;
    for (Json& one : (*answer)[field]) all.push_back(std::move(one));
    if ((*answer)[field].size() < static_cast<std::size_t>(kPageSize)) break;
  }
  return all;
}

}  // namespace ebb::cli
