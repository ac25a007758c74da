// A trainer's state on disk, and the journal beside it that tells a reader what happened to the
// trainer.
//
// DIR/last: the newest state, replaced as a whole (write, fsync, rename). DIR/journal: one line an
// event, appended in one write, never rewritten: `start`, `checkpoint`, `signal`, `saved`,
// `finished`, each with real time, job, attempt, step.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "deploy/day/model.hpp"

namespace ebb::day {

struct Checkpoint {
  std::uint64_t step = 0;  // steps done
  Model model;
};

/// Nothing if there is none. A file that cannot be read as a whole ends the program: training from
/// zero over it would hide the loss.
std::optional<Checkpoint> load_checkpoint(const std::string& directory);

/// False, with a line on stderr, if it could not be made durable; the former one is then still
/// there.
bool save_checkpoint(const std::string& directory, const Checkpoint& checkpoint);

/// Milliseconds since 1970, real time.
std::int64_t real_ms();

/// Appends `event at=MS TEXT`. Nothing happens without a directory.
void write_journal(const std::string& directory, const std::string& event, const std::string& text);

}  // namespace ebb::day
