// Result<T>: a value or a refusal. A refusal says what was wrong with which field and what would be
// right; its code is the API's, chosen where the rule is.
#pragma once
#include <string>
#include <utility>
#include <variant>

#include "base/assert.hpp"

namespace ebb {
struct Refusal {
  std::string code;     // as the API spells it, for instance "InvalidParameter"
  std::string message;  // names the field, its value and what is allowed
  int http_status = 400;
};

struct Ok {};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::move(value)) {}            // NOLINT: implicit on purpose
  Result(Refusal refusal) : content_(std::move(refusal)) {}  // NOLINT: implicit on purpose
  explicit operator bool() const { return content_.index() == 0; }
  T& value() {
    EBB_ASSERT(content_.index() == 0);
    return std::get<0>(content_);
  }
  const T& value() const {
    EBB_ASSERT(content_.index() == 0);
    return std::get<0>(content_);
  }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Refusal& refusal() const {
    EBB_ASSERT(content_.index() == 1);
    return std::get<1>(content_);
  }

 private:
  std::variant<T, Refusal> content_;
};
}  // namespace ebb
