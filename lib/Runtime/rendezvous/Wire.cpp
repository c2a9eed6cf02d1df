// SPDX-License-Identifier: Apache-2.0
// Sockets and messages of the TCP rendezvous.
#include "Wire.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace autopar::runtime {
namespace {

constexpr uint32_t kWireMagic = 0x41505231; // "APR1"
constexpr uint32_t kMaxPart = 1u << 24;
/// A host may have several addresses, and one of them may not answer.
constexpr int64_t kAttemptMs = 5000;

struct WireHeader {
  uint32_t magic;
  uint32_t kind;
  int32_t a, b;
  uint32_t keyBytes, valueBytes;
};

using Clock = std::chrono::steady_clock;

/// Whether a socket becomes ready for `events` before the time is over.
bool becomesReady(int fd, short events, Clock::time_point end) {
  while (true) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd ready{fd, events, 0};
    int count = poll(&ready, 1, int(std::clamp<int64_t>(left, 0, INT_MAX)));
    if (count >= 0 || errno != EINTR)
      return count == 1;
  }
}

/// `move` sends or receives some bytes, from number `done` on: all of them, or false.
template <typename Move>
bool moveAll(size_t bytes, Move move) {
  for (size_t done = 0; done < bytes;) {
    ssize_t moved = move(done);
    if (moved < 0 && errno == EINTR)
      continue;
    if (moved <= 0)
      return false;
    done += size_t(moved);
  }
  return true;
}

} // namespace

WireSocket::~WireSocket() { close(fd); }
void WireSocket::shutdown() { ::shutdown(fd, SHUT_RDWR); }

bool WireSocket::send(const WireMessage &message) {
  WireHeader header{kWireMagic, uint32_t(message.kind),       message.a,
                    message.b,  uint32_t(message.key.size()), uint32_t(message.value.size())};
  std::string bytes(reinterpret_cast<const char *>(&header), sizeof(header));
  bytes += message.key;
  bytes += message.value;
  std::lock_guard lock(sending);
  return moveAll(bytes.size(), [&](size_t done) {
    return ::send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
  });
}

bool WireSocket::readAll(void *data, size_t bytes, std::optional<Clock::time_point> end) {
  return moveAll(bytes, [&](size_t done) -> ssize_t {
    if (end && !becomesReady(fd, POLLIN, *end))
      return 0;
    return recv(fd, static_cast<char *>(data) + done, bytes - done, 0);
  });
}

bool WireSocket::receive(WireMessage &message) { return receive(message, std::nullopt); }

bool WireSocket::receive(WireMessage &message, int64_t timeoutMs) {
  return receive(message, std::optional(Clock::now() + std::chrono::milliseconds(timeoutMs)));
}

bool WireSocket::receive(WireMessage &message, std::optional<Clock::time_point> end) {
  WireHeader header;
  if (!readAll(&header, sizeof(header), end) || header.magic != kWireMagic ||
      header.keyBytes > kMaxPart || header.valueBytes > kMaxPart)
    return false;
  message.kind = WireKind(header.kind);
  message.a = header.a;
  message.b = header.b;
  message.key.resize(header.keyBytes);
  message.value.resize(header.valueBytes);
  return readAll(message.key.data(), header.keyBytes, end) &&
         readAll(message.value.data(), header.valueBytes, end);
}

Result<int> listenOn(uint16_t port) {
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool isV6 = fd >= 0;
  if (!isV6)
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return Status(StatusCode::NoPermission,
                  std::string("cannot create a socket: ") + std::strerror(errno));
  int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  int bound = -1;
  if (isV6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    bound = bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address));
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    bound = bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address));
  }
  if (bound != 0 || listen(fd, 1024) != 0) {
    Status status(
        errno == EADDRINUSE ? StatusCode::Mismatch : StatusCode::NoPermission,
        "rank 0 cannot listen on port " + std::to_string(port) + ": " + std::strerror(errno) +
            (errno == EADDRINUSE ? "; is another rank 0 running? choose a free MASTER_PORT" : ""));
    close(fd);
    return status;
  }
  return fd;
}

/// Zero, or why the connection was not made. A host that does not exist does not answer at all.
static int connectWithin(int fd, const addrinfo &address, int timeoutMs) {
  if (fd < 0)
    return errno;
  if (connect(fd, address.ai_addr, address.ai_addrlen) == 0)
    return 0;
  if (errno != EINPROGRESS)
    return errno;
  if (!becomesReady(fd, POLLOUT, Clock::now() + std::chrono::milliseconds(timeoutMs)))
    return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

uint16_t portOf(int listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length) != 0)
    return 0;
  // Of both kinds it lies in the same place.
  return ntohs(reinterpret_cast<sockaddr_in *>(&address)->sin_port);
}

/// One try at every address of a host: a connection, or why there is none.
static Result<int> tryHost(const std::string &host, uint16_t port, int64_t timeoutMs) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  std::string reason = code != 0 ? gai_strerror(code) : "no answer";
  int connected = -1;
  for (addrinfo *address = found; address && connected < 0; address = address->ai_next) {
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = connectWithin(fd, *address, int(std::clamp<int64_t>(timeoutMs, 0, kAttemptMs)));
    reason = std::strerror(error);
    if (error == 0)
      connected = fd;
    else if (fd >= 0)
      close(fd);
  }
  if (found)
    freeaddrinfo(found);
  if (connected < 0)
    return Status::peerLost(reason);
  int on = 1;
  setsockopt(connected, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  fcntl(connected, F_SETFL, fcntl(connected, F_GETFL) & ~O_NONBLOCK);
  return connected;
}

Result<int> connectTo(const std::vector<std::string> &hosts, uint16_t port, int64_t timeoutMs) {
  using Milliseconds = std::chrono::milliseconds;
  auto end = std::chrono::steady_clock::now() + Milliseconds(timeoutMs);
  std::string tried;
  do {
    tried.clear();
    for (const std::string &host : hosts) {
      auto left = std::chrono::ceil<Milliseconds>(end - std::chrono::steady_clock::now()).count();
      auto fd = tryHost(host, port, left);
      if (fd)
        return fd;
      tried += (tried.empty() ? "" : ", ") + host + ":" + std::to_string(port) + ": " +
               fd.status().message();
    }
    std::this_thread::sleep_for(Milliseconds(50));
  } while (std::chrono::steady_clock::now() < end);
  return Status::peerLost("cannot reach rank 0 at " + tried +
                          "; is it started, is that its host, and does no firewall keep the port "
                          "closed?");
}

std::string ownHostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

std::string thisMachine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return ownHostName() + "/" + boot;
}

std::string ownProcessSpace() {
  char space[64] = {};
  return readlink("/proc/self/ns/pid", space, sizeof(space) - 1) > 0 ? space : "unknown";
}

} // namespace autopar::runtime
