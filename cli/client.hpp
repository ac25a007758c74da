// The API over HTTP, as `ebb` uses it: JSON in, JSON or a refusal out.
//
// Errors: the server's own refusal with its code and sentence; `Unreachable` where no server
// answers.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "gateway/api/json.hpp"

namespace ebb::cli {

using api::Json;
using Query = std::vector<std::pair<std::string, std::string>>;

/// Where the server is and who asks. Found from flags, EBB_SERVER, EBB_TOKEN, EBB_DATA, the data
/// directory.
struct Access {
  std::string server;  // http://HOST:PORT
  std::string token;
};
/// `server`, `data_dir`: flags, may be empty.
Result<Access> find_access(const std::string& server, const std::string& data_dir);

class Client {
 public:
  explicit Client(Access access);
  ~Client();
  Client(const Client&) = delete;

  Result<Json> get(const std::string& path, const Query& query = {});
  Result<Json> post(const std::string& path, const Json& body, const Query& query = {});
  Result<Json> put(const std::string& path, const Json& body = nullptr, const Query& query = {});
  Result<Json> remove(const std::string& path);
  /// All pages of a list: `field` names the list in the answer.
  Result<Json> get_all(const std::string& path, const std::string& field, Query query = {});

 private:
  Result<Json> call(const std::string& method, const std::string& path, const Query& query,
                    const std::string& body);
  struct Curl;
  std::unique_ptr<Curl> curl_;
  Access access_;
};

/// Percent-encoding of one part of a path or query.
std::string encoded(const std::string& text);

}  // namespace ebb::cli
