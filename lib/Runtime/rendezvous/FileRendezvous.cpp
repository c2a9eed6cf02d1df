// SPDX-License-Identifier: Apache-2.0
// Rendezvous over a shared folder: one file per key, written by rename; a heartbeat file per rank
// whose content changes; "fail" and "left" files. For clusters where ranks share a disk but no
// known port.
#include "Wire.h"
#include "autopar/Runtime/Rendezvous.h"

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace autopar::runtime {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBeatInterval = std::chrono::milliseconds(300);

/// Keys become file names.
std::string fileName(const std::string &key) {
  static const char digits[] = "0123456789abcdef";
  std::string name = "key.";
  for (unsigned char c : key)
    if (std::isalnum(c) || c == '-' || c == '_')
      name += char(c);
    else
      name += std::string("%") + digits[c >> 4] + digits[c & 15];
  return name;
}

bool readFile(const std::string &path, std::string &out) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return false;
  std::ostringstream text;
  text << file.rdbuf();
  out = text.str();
  return true;
}

class FileRendezvous : public Rendezvous {
public:
  FileRendezvous(std::string folder, const RendezvousOptions &options)
      : folder(std::move(folder)), options(options), peers(size_t(options.worldSize)) {}

  ~FileRendezvous() override {
    leave();
    if (!beating.joinable())
      return;
    {
      std::lock_guard lock(mutex);
      isStopping = true;
      changed.notify_all();
    }
    beating.join();
  }

  Status start() {
    // Creating the own file exclusively catches a rank that comes twice and leftovers of another
    // job.
    std::string own = path("rank", options.rank);
    int fd = open(own.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 && errno == EEXIST)
      return Status::mismatch(
          own + " exists: rank " + std::to_string(options.rank) +
          " came twice, or the folder holds an earlier job; give an empty folder");
    if (fd < 0)
      return {StatusCode::CannotCreate, "cannot create " + own + ": " + std::strerror(errno)};
    close(fd);
    AUTOPAR_RETURN_IF_ERROR(write(own, std::to_string(options.worldSize)));
    AUTOPAR_RETURN_IF_ERROR(beat());
    beating = std::thread([this] { beatLoop(); });
    return Status::ok();
  }

  int32_t rank() const override { return options.rank; }
  int32_t worldSize() const override { return options.worldSize; }

  Status put(const std::string &key, const std::string &value) override {
    return write(folder + "/" + fileName(key), value);
  }

  Result<std::string> get(const std::string &key, std::chrono::milliseconds timeout) override {
    auto end = Clock::now() + timeout;
    std::string value;
    while (!readFile(folder + "/" + fileName(key), value)) {
      AUTOPAR_RETURN_IF_ERROR(verdict());
      if (Clock::now() > end)
        return Status::peerLost("no rank published '" + key + "' within " +
                                std::to_string(timeout.count()) + " ms");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return value;
  }

  /// All on one machine reach each other by its loopback.
  Result<std::string> address() override {
    std::string own = thisMachine();
    AUTOPAR_RETURN_IF_ERROR(put("machine/" + std::to_string(options.rank), own));
    bool isAlone = true;
    for (int32_t rank = 0; rank < options.worldSize; ++rank) {
      // Who does not arrive is the verdict's to say.
      auto other =
          get("machine/" + std::to_string(rank), options.arrivalTimeout + 4 * kBeatInterval);
      AUTOPAR_RETURN_IF_ERROR(other.status());
      isAlone &= *other == own;
    }
    return isAlone ? std::string("127.0.0.1") : ownAddressForAnybody();
  }

  Status verdict() override {
    std::lock_guard lock(mutex);
    return current;
  }

  void fail(const Status &reason) override {
    if (!hasLeft.exchange(true))
      (void)write(path("fail", options.rank),
                  "on " + ownHostName() + " failed: " + reason.message());
  }
  void leave() override {
    if (beating.joinable() && !hasLeft.exchange(true))
      (void)write(path("left", options.rank), "");
  }

private:
  struct Peer {
    std::string lastBeat;
    Clock::time_point changedAt = Clock::now();
    bool hasLeft = false;
  };

  std::string folder;
  RendezvousOptions options;
  std::vector<Peer> peers;
  std::mutex mutex;
  std::condition_variable changed;
  Status current;
  bool isStopping = false;
  std::atomic<bool> hasLeft{false};
  uint64_t beats = 0;
  std::atomic<uint64_t> writes{0};
  Clock::time_point startedAt = Clock::now();
  std::thread beating;

  std::string path(const char *kind, int32_t rank) const {
    return folder + "/" + kind + "." + std::to_string(rank);
  }

  /// Says why, and takes away what is there of it.
  static Status cannotWrite(const std::string &path, const std::string &temporary) {
    Status status = Status::ioError("cannot write " + path + ": " + std::strerror(errno));
    unlink(temporary.c_str());
    return status;
  }

  Status write(const std::string &target, const std::string &text) {
    std::string temporary = folder + "/tmp." + std::to_string(options.rank) + "." +
                            std::to_string(getpid()) + "." + std::to_string(writes++);
    {
      std::ofstream file(temporary, std::ios::binary);
      file << text;
      if (!file.flush())
        return cannotWrite(temporary, temporary);
    }
    if (rename(temporary.c_str(), target.c_str()) != 0)
      return cannotWrite(target, temporary);
    return Status::ok();
  }

  /// "host pid count"
  Status beat() {
    return write(path("alive", options.rank), ownHostName() + " " + std::to_string(getpid()) + " " +
                                                  std::to_string(beats++) + " " +
                                                  ownProcessSpace());
  }

  void beatLoop() {
    std::unique_lock lock(mutex);
    while (!isStopping) {
      lock.unlock();
      (void)beat();
      Status seen = look();
      lock.lock();
      if (current.isOk())
        current = seen;
      changed.wait_for(lock, kBeatInterval, [this] { return isStopping; });
    }
  }

  Status look() {
    for (int32_t rank = 0; rank < options.worldSize; ++rank) {
      Peer &peer = peers[size_t(rank)];
      std::string text;
      if (rank == options.rank || peer.hasLeft)
        continue;
      if (readFile(path("fail", rank), text))
        return Status::peerLost("rank " + std::to_string(rank) + " " + text);
      if (readFile(path("left", rank), text)) {
        peer.hasLeft = true;
        continue;
      }
      AUTOPAR_RETURN_IF_ERROR(lookAt(rank, peer));
    }
    return Status::ok();
  }

  Status lookAt(int32_t rank, Peer &peer) {
    std::string who = "rank " + std::to_string(rank), text;
    auto now = Clock::now();
    if (!readFile(path("alive", rank), text)) {
      if (peer.lastBeat.empty() && now - startedAt > options.arrivalTimeout)
        return Status::peerLost(who + " did not arrive within " +
                                std::to_string(options.arrivalTimeout.count() / 1000) + " s");
      return Status::ok();
    }
    std::string world;
    if (peer.lastBeat.empty() && readFile(path("rank", rank), world) && !world.empty() &&
        world != std::to_string(options.worldSize))
      return Status::mismatch(who + " expects a world of " + world + " ranks, this rank one of " +
                              std::to_string(options.worldSize));
    std::istringstream words(text);
    std::string host, beat, space;
    pid_t pid = 0;
    words >> host >> pid >> beat >> space;
    bool isVisible = host == ownHostName() && space == ownProcessSpace();
    bool isGone = isVisible && pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
    std::string goodbye;
    if (isGone && !readFile(path("left", rank), goodbye))
      return Status::peerLost(who + " on " + host + " is gone (its process " + std::to_string(pid) +
                              " ended)");
    if (text != peer.lastBeat) {
      peer.lastBeat = text;
      peer.changedAt = now;
    } else if (now - peer.changedAt > options.hangTimeout) {
      return Status::peerLost(who + " on " + host + " is stuck (no heartbeat for " +
                              std::to_string(options.hangTimeout.count() / 1000) + " s)");
    }
    return Status::ok();
  }
};

} // namespace

Result<std::unique_ptr<Rendezvous>> createFileRendezvous(const std::string &folder,
                                                         const RendezvousOptions &options) {
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
    return Status(StatusCode::CannotCreate,
                  "cannot create " + folder + ": " + std::strerror(errno));
  auto rendezvous = std::make_unique<FileRendezvous>(folder, options);
  AUTOPAR_RETURN_IF_ERROR(rendezvous->start());
  return std::unique_ptr<Rendezvous>(std::move(rendezvous));
}

} // namespace autopar::runtime
