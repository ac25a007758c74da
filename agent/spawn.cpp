#include "agent/spawn.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace ebb::agent {
namespace {
constexpr unsigned kPortFirst = 20'000, kPortCount = 12'000;
constexpr int kFdsFrom = 10;  // above the one the nursery is to find
constexpr int kBacklog = 8;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Refusal failed(const std::string& what) {
  return {"LaunchFailed", what + ": " + std::strerror(errno), 500};
}

/// Socket addresses hold 107 characters, directories may be longer: the address goes by the
/// directory's descriptor.
sockaddr_un address_in(int directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(directory) + "/control";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

int connect_in(int directory) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const sockaddr_un address = address_in(directory);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

bool write_all(int fd, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

bool send_fds(int socket, int first, int second) {
  char byte = 0;
  iovec part{&byte, 1};
  const int fds[2] = {first, second};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof fds)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(header), fds, sizeof fds);
  ssize_t n = 0;
  while ((n = ::sendmsg(socket, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return n == 1;
}
}  // namespace

ShimNursery::~ShimNursery() { close(); }

void ShimNursery::close() {
  if (socket_ < 0) return;
  ::close(std::exchange(socket_, -1));  // it hears that and ends
  ::waitpid(pid_, nullptr, 0);
}

bool ShimNursery::open() {
  if (socket_ >= 0) return true;
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
  const Fd low(pair[1]);
  Fd ours(pair[0]);
  const Fd theirs(::fcntl(low.get(), F_DUPFD_CLOEXEC, kFdsFrom));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), kNurseryFd);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  char name[] = "ebb-shim";
  char* argv[] = {name, nullptr};
  char* envp[] = {nullptr};
  const int error = ::posix_spawn(&pid_, program_.c_str(), &actions, &attributes, argv, envp);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  errno = error;
  if (error != 0) return false;
  socket_ = ours.release();
  return true;
}

Result<int> ShimNursery::start_shim(const ShimSpec& spec) {
  const Fd directory(::open(spec.directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) return failed("pod directory " + spec.directory);
  const Fd control(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_in(directory.get());
  if (control.get() < 0 ||
      ::bind(control.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(control.get(), kBacklog) != 0) {
    return failed("control socket in " + spec.directory);
  }
  const Fd content(::memfd_create("ebb-shim-spec", MFD_CLOEXEC));
  if (content.get() < 0 || !write_all(content.get(), bytes_of(spec))) return failed("shim spec");
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!open()) return failed("cannot start " + program_);
    if (send_fds(socket_, control.get(), content.get())) return connect_in(directory.get());
    const int error = errno;
    close();  // it was killed: a new one
    errno = error;
  }
  return failed("cannot reach the process of " + program_);
}

int connect_to_shim(const std::string& pod_directory) {
  const Fd directory(::open(pod_directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  return directory.get() < 0 ? -1 : connect_in(directory.get());
}

unsigned choose_port(unsigned after) {
  for (unsigned i = 1; i <= kPortCount; ++i) {
    const unsigned port = kPortFirst + (after + i) % kPortCount;
    const Fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    if (::bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      return port;
    }
  }
  return 0;
}

}  // namespace ebb::agent
