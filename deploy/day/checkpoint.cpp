#include "deploy/day/checkpoint.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace ebb::day {
namespace {

bool write_all(int file, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(file, text.data() + done, text.size() - done);
    if (wrote <= 0) return false;
    done += static_cast<std::size_t>(wrote);
  }
  return true;
}

}  // namespace

std::int64_t real_ms() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000 + now.tv_nsec / 1'000'000;
}

std::optional<Checkpoint> load_checkpoint(const std::string& directory) {
  if (directory.empty()) return std::nullopt;
  const std::string path = directory + "/last";
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return std::nullopt;
  Checkpoint checkpoint;
  unsigned long long step = 0;
  bool whole = std::fscanf(file, "step %llu\n", &step) == 1;
  for (double& weight : checkpoint.model.weights)
    whole = whole && std::fscanf(file, "%la\n", &weight) == 1;
  char end[4] = {};
  whole = whole && std::fscanf(file, "%3s", end) == 1 && std::string(end) == "end";
  std::fclose(file);
  if (!whole) {
    std::fprintf(stderr, "trainer: %s is damaged\n", path.c_str());
    std::exit(3);
  }
  checkpoint.step = step;
  return checkpoint;
}

bool save_checkpoint(const std::string& directory, const Checkpoint& checkpoint) {
  if (directory.empty()) return true;
  std::string text = "step " + std::to_string(checkpoint.step) + "\n";
  char number[64];
  for (const double weight : checkpoint.model.weights) {
    std::snprintf(number, sizeof number, "%a\n", weight);
    text += number;
  }
  text += "end\n";
  const std::string temporary = directory + "/last.new";
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const bool written = file >= 0 && write_all(file, text) && fsync(file) == 0;
  if (file >= 0) close(file);
  if (!written || rename(temporary.c_str(), (directory + "/last").c_str()) != 0) {
    std::perror("trainer: checkpoint");
    return false;
  }
  const int folder = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  const bool durable = fsync(folder) == 0;
  close(folder);
  return durable;
}

void write_journal(const std::string& directory, const std::string& event,
                   const std::string& text) {
  if (directory.empty()) return;
  const int file =
      open((directory + "/journal").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return;
  const std::string line = event + " at=" + std::to_string(real_ms()) + " " + text + "\n";
  if (!write_all(file, line)) std::perror("trainer: journal");
  close(file);
}

}  // namespace ebb::day
