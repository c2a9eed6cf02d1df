// SPDX-License-Identifier: Apache-2.0
// The messages of the TCP rendezvous: a fixed header, then key and value bytes.
#pragma once

#include "autopar/Base/Status.h"

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autopar::runtime {

enum class WireKind : uint32_t {
  Hello = 1,   ///< rank says its rank (a) and world size (b); value: its host name
  Put = 2,     ///< key, value
  Get = 3,     ///< key
  Value = 4,   ///< answer to Get
  Ping = 5,    ///< heartbeat, both directions
  Fail = 6,    ///< value: why the sender fails
  Verdict = 7, ///< server: a = status code, value: message
  Bye = 8,
  Welcome = 9, ///< server, to a Hello that it accepts; value: its host name
};

struct WireMessage {
  WireKind kind = WireKind::Ping;
  int32_t a = 0, b = 0;
  std::string key, value;
};

/// A connected socket with whole-message writes. Owns the descriptor.
class WireSocket {
public:
  explicit WireSocket(int fd) : fd(fd) {}
  ~WireSocket();
  WireSocket(const WireSocket &) = delete;
  WireSocket &operator=(const WireSocket &) = delete;

  /// False when the connection is gone.
  bool send(const WireMessage &message);
  /// Blocks until a whole message is there; false when the connection is gone or talks nonsense.
  bool receive(WireMessage &message);
  /// As receive(), and false when the message is not whole after so long.
  bool receive(WireMessage &message, int64_t timeoutMs);
  /// Unblocks receive().
  void shutdown();
  int descriptor() const { return fd; }

private:
  int fd;
  std::mutex sending;
  bool readAll(void *data, size_t bytes, std::optional<std::chrono::steady_clock::time_point> end);
  bool receive(WireMessage &message, std::optional<std::chrono::steady_clock::time_point> end);
};

/// Listening socket on all addresses; NoPermission / Mismatch explain a port in use. Port 0 is any
/// that is free.
Result<int> listenOn(uint16_t port);
uint16_t portOf(int listener);
/// Tries until the port answers at one of the hosts or the time is over.
Result<int> connectTo(const std::vector<std::string> &hosts, uint16_t port, int64_t timeoutMs);
/// This machine's name.
std::string ownHostName();
/// A word that no other machine says, nor this one when it has been started again.
std::string thisMachine();
/// The space of this process's number: in another one, of a container, it means another process.
std::string ownProcessSpace();

/// An end of a connection, as text that names no port ("10.0.0.1"); empty: it is a loopback, which
/// other machines do not reach.
std::string ownAddressOf(int fd);
std::string peerAddressOf(int fd);
/// Of interfaces that are up, without loopbacks; without those of IPv6, of which each has one more.
std::set<std::string> addressesOfInterfaces();
/// The address of this machine for machines of which nothing is known: that of its name, else that
/// of its only interface. NoDevice: there is none, or more than one.
Result<std::string> ownAddressForAnybody();

} // namespace autopar::runtime
