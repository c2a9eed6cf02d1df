// SPDX-License-Identifier: Apache-2.0
// Rendezvous over TCP: rank 0 has the server, and every rank a connection to it.
#include "RendezvousServer.h"
#include "Wire.h"
#include "autopar/Runtime/Rendezvous.h"

#include <atomic>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

namespace autopar::runtime {
namespace {

using Clock = std::chrono::steady_clock;

class TcpRendezvous : public Rendezvous {
public:
  TcpRendezvous(std::unique_ptr<RendezvousServer> server, int fd, const RendezvousOptions &options,
                std::string where)
      : server(std::move(server)), socket(fd), options(options), where(std::move(where)) {}

  /// Greets rank 0; until it answers, something else may be what listens there.
  Status start() {
    socket.send({WireKind::Hello, options.rank, options.worldSize, "", ownHostName()});
    WireMessage answer;
    bool isAnswered = socket.receive(answer, options.hangTimeout.count());
    if (isAnswered && answer.kind == WireKind::Verdict)
      return {StatusCode(answer.a), answer.value};
    if (!isAnswered || answer.kind != WireKind::Welcome)
      return Status::peerLost("what listens at " + where +
                              " does not answer as rank 0 does: another program has the port, or "
                              "rank 0 is gone; choose a free MASTER_PORT");
    where = "rank 0 on " + answer.value + " (" + where + ")";
    lastHeard = Clock::now();
    receiving = std::thread([this] { receiveLoop(); });
    pinging = std::thread([this] { pingLoop(); });
    return Status::ok();
  }

  ~TcpRendezvous() override {
    leave();
    {
      std::lock_guard lock(mutex);
      isStopping = true;
      changed.notify_all();
    }
    if (pinging.joinable())
      pinging.join();
    server.reset(); // waits for the others' goodbyes
    socket.shutdown();
    if (receiving.joinable())
      receiving.join();
  }

  int32_t rank() const override { return options.rank; }
  int32_t worldSize() const override { return options.worldSize; }

  Status put(const std::string &key, const std::string &value) override {
    return socket.send({WireKind::Put, 0, 0, key, value}) ? Status::ok() : lost();
  }

  Result<std::string> get(const std::string &key, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex);
    if (values.count(key))
      return values[key];
    if (!socket.send({WireKind::Get, 0, 0, key, ""}))
      return lost();
    bool arrived =
        changed.wait_for(lock, timeout, [&] { return values.count(key) || !current.isOk(); });
    if (values.count(key))
      return values[key];
    if (arrived)
      return current;
    return Status::peerLost("no rank published '" + key + "' within " +
                            std::to_string(timeout.count()) + " ms");
  }

  Status verdict() override {
    std::lock_guard lock(mutex);
    return current;
  }

  Result<std::string> address() override {
    std::string own = ownAddressOf(socket.descriptor());
    // Who does not arrive is the server's to say.
    return own.empty() ? get(kAddressKey, options.arrivalTimeout + 4 * kPingInterval) : own;
  }

  void fail(const Status &reason) override {
    if (!hasLeft.exchange(true))
      socket.send({WireKind::Fail, reason.exitCode(), 0, "", reason.message()});
  }
  void leave() override {
    if (!hasLeft.exchange(true))
      socket.send({WireKind::Bye, 0, 0, "", ""});
  }

private:
  std::unique_ptr<RendezvousServer> server; ///< rank 0 only
  WireSocket socket;
  RendezvousOptions options;
  std::string where; ///< rank 0
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  Status current;
  bool isStopping = false;
  Clock::time_point lastHeard;
  std::atomic<bool> hasLeft{false};
  std::thread receiving, pinging;

  Status lost() const { return Status::peerLost(where + " is gone (its connection closed)"); }

  void receiveLoop() {
    WireMessage message;
    while (socket.receive(message)) {
      std::lock_guard lock(mutex);
      lastHeard = Clock::now();
      if (message.kind == WireKind::Value)
        values[message.key] = message.value;
      if (message.kind == WireKind::Verdict && current.isOk())
        current = Status(StatusCode(message.a), message.value);
      changed.notify_all();
    }
    std::lock_guard lock(mutex);
    if (current.isOk() && !isStopping && !hasLeft)
      current = lost();
    changed.notify_all();
  }

  void pingLoop() {
    std::unique_lock lock(mutex);
    while (!isStopping) {
      changed.wait_for(lock, kPingInterval, [this] { return isStopping; });
      if (current.isOk() && !isStopping && Clock::now() - lastHeard > options.hangTimeout) {
        current = silentRank(where, options.hangTimeout);
        changed.notify_all();
      }
      lock.unlock();
      socket.send({WireKind::Ping, 0, 0, "", ""});
      lock.lock();
    }
  }
};

/// Greets rank 0, which listens at the port of one of the hosts; of rank 0 itself `server` is
/// given.
Result<std::unique_ptr<Rendezvous>> meet(std::unique_ptr<RendezvousServer> server,
                                         const std::vector<std::string> &hosts, uint16_t port,
                                         const RendezvousOptions &options) {
  auto fd = connectTo(server ? std::vector<std::string>{"localhost"} : hosts, port,
                      options.arrivalTimeout.count());
  if (!fd)
    return fd.status();
  std::string where =
      (hosts.size() == 1 ? hosts[0] : peerAddressOf(*fd)) + ":" + std::to_string(port);
  auto rendezvous = std::make_unique<TcpRendezvous>(std::move(server), *fd, options, where);
  AUTOPAR_RETURN_IF_ERROR(rendezvous->start());
  return std::unique_ptr<Rendezvous>(std::move(rendezvous));
}

} // namespace

Result<std::unique_ptr<Rendezvous>> createTcpRendezvous(const std::string &host, uint16_t port,
                                                        const RendezvousOptions &options) {
  std::unique_ptr<RendezvousServer> server;
  if (options.rank == 0) {
    auto listener = listenOn(port);
    if (!listener)
      return listener.status();
    server = std::make_unique<RendezvousServer>(*listener, options);
  }
  return meet(std::move(server), {host}, port, options);
}

Result<std::unique_ptr<Rendezvous>> createTcpRendezvous(const ShareText &share,
                                                        const std::string &named,
                                                        const RendezvousOptions &options) {
  std::unique_ptr<RendezvousServer> server;
  std::ostringstream own;
  if (options.rank == 0) {
    auto listener = listenOn(0);
    if (!listener)
      return listener.status();
    own << portOf(*listener) << " " << thisMachine();
    server = std::make_unique<RendezvousServer>(*listener, options);
    if (!named.empty())
      own << " " << named;
    else
      for (const std::string &address : addressesOfInterfaces())
        own << " " << address;
  }
  auto shared = share(own.str());
  if (!shared)
    return shared.status();
  std::istringstream words(*shared);
  uint16_t port = 0;
  std::string system;
  words >> port >> system;
  std::vector<std::string> hosts{std::istream_iterator<std::string>(words), {}};
  if (system == thisMachine())
    hosts = {"localhost"};
  if (hosts.empty())
    return Status(StatusCode::NoDevice, "the machine of rank 0 has no address but loopbacks; set "
                                        "AUTOPAR_HOST there to the one that others reach");
  return meet(std::move(server), hosts, port, options);
}

} // namespace autopar::runtime
