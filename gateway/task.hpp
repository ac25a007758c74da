// Task<T>: an operation that waits for replies of actors without holding a thread, written top to
// bottom.
//
//   Task<Result<Json>> get_quota(Desk& desk, Call call) {
//     auto view = co_await desk.quota(call.path_value("QuotaId"));
//     ...
//
// A task starts when it is awaited or spawned. Parameters are taken by value (or live as long as
// the gateway), since the caller's frame may be gone when the task goes on. An exception travels to
// the awaiter.
#pragma once
#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "base/assert.hpp"

namespace ebb::gateway {

template <class T>
class [[nodiscard]] Task {
 public:
  struct promise_type {
    std::optional<T> value;
    std::exception_ptr error;
    std::coroutine_handle<> awaiter = std::noop_coroutine();

    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        return self.promise().awaiter;
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_value(T result) { value.emplace(std::move(result)); }
    void unhandled_exception() { error = std::current_exception(); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) noexcept {
    handle_.promise().awaiter = awaiter;
    return handle_;
  }
  T await_resume() {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
    EBB_ASSERT(handle_.promise().value.has_value());
    return std::move(*handle_.promise().value);
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

/// A coroutine that nobody awaits: it frees itself at its end.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

/// Starts a task; `done` gets its value, or null where it ended with an exception (then its text is
/// in the second).
template <class T>
Detached spawn(Task<T> task, std::function<void(T*, std::string)> done) {
  std::optional<T> value;
  std::string error;
  try {
    value.emplace(co_await std::move(task));
  } catch (const std::exception& exception) {
    error = exception.what();
  }
  done(value ? &*value : nullptr, std::move(error));
}

}  // namespace ebb::gateway
