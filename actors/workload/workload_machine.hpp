// What job, service and dev instance share: the record, its claims' runners, events and history,
// the commands that all three know. Each decides in its own file what an ended pod, a wish from
// outside or a passed moment means.
//
// Unit: milliseconds. Errors: refusals to commands. Source: DESIGN sections 3 and 5, api/NOTES.md.
// Saves one WorkloadRecord, only when something durable changed.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/machine.hpp"
#include "actors/workload/claim_runner.hpp"

namespace ebb::actors {

inline constexpr int kEventsMax = 200;
inline constexpr int kHistoryMax = 20;

class WorkloadMachine : public Machine {
 public:
  WorkloadMachine(const Context& context, const std::vector<v1::Record>& records);
  void start(Instant now, Effects& effects) final;
  void handle(const v1::Envelope& envelope, Instant now, Effects& effects) final;
  void settle(Instant now, Effects& effects) final;
  void wake(Instant now, Effects& effects) final;
  void remind(Instant now) final;

 protected:
  /// First call after birth or rebuild: begin what has not begun.
  virtual void begin(Instant now, Effects& effects) = 0;
  virtual void on(ClaimRunner& runner, const ClaimHappening& happening, Instant now,
                  Effects& effects) = 0;
  /// After every message and wake-up: bring what is in line with what is wanted, set status_.
  /// Returns the mono time at which it wants to look again; kNever if not.
  virtual std::int64_t decide(Instant now, Effects& effects) = 0;
  /// Stop, start, scale and cron commands; the rest is handled here.
  virtual void command(const v1::WorkloadCommand& command, const v1::Envelope& envelope,
                       Instant now, Effects& effects) = 0;
  /// True if it may be deleted now.
  virtual bool at_rest() const = 0;

  const v1::WorkloadSpec& spec() const { return record_.spec(); }
  ClaimRunner& runner(std::uint32_t index);
  void set_status(const std::string& status, const std::string& sub_status = {},
                  const std::string& code = {}, const std::string& message = {});
  void note(Instant now, const std::string& type, const std::string& reason,
            const std::string& message);
  void accept(const v1::Envelope& envelope, Effects& effects);
  void not_for_this(const v1::Envelope& envelope, const std::string& what, Effects& effects);
  void dirty() { dirty_ = true; }
  std::string claim_text(const ClaimRunner& runner) const;

  Context context_;
  v1::WorkloadRecord record_;
  std::map<std::uint32_t, std::unique_ptr<ClaimRunner>> runners_;

 private:
  void set_last_word(v1::Header* header, const v1::Header& heard, Instant now) const;
  void take_happenings(Instant now, Effects& effects);
  void remember(const ClaimRunner& runner, const ClaimHappening& over, Instant now);
  void handle_command(const v1::WorkloadCommand& command, const v1::Envelope& envelope, Instant now,
                      Effects& effects);
  void update(const v1::WorkloadUpdate& update, const v1::Envelope& envelope, Instant now,
              Effects& effects);
  v1::WorkloadRecord whole_record() const;

  bool dirty_ = false;
  bool removing_ = false;
  v1::Envelope remove_request_;
};

/// Seconds with one digit, for sentences.
std::string seconds_text(std::int64_t ms);

}  // namespace ebb::actors
