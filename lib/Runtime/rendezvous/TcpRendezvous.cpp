// SPDX-License-Identifier: Apache-2.0
// Rendezvous over TCP: a server thread in rank 0's process and one connection per rank (rank 0
// included). A connection that closes without goodbye, or is silent for too long, is a dead rank;
// the server tells everybody.
#include "Wire.h"
#include "autopar/Runtime/Rendezvous.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace autopar::runtime {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPingInterval = std::chrono::milliseconds(500);
/// How long rank 0 stays for the others' goodbyes.
constexpr auto kGoodbyePatience = std::chrono::seconds(5);

/// One connected rank, as the server sees it.
struct Client {
  std::shared_ptr<WireSocket> socket;
  std::thread thread;
  int32_t rank = -1;
  std::string host;
  Clock::time_point lastSeen = Clock::now();
  bool hasLeft = false;
};

class Server {
public:
  Server(int listener, const RendezvousOptions &options) : listener(listener), options(options) {
    accepting = std::thread([this] { acceptLoop(); });
    watching = std::thread([this] { watchLoop(); });
  }

  ~Server() {
    waitForGoodbyes();
    {
      std::lock_guard lock(mutex);
      isStopping = true;
      changed.notify_all();
    }
    ::shutdown(listener, SHUT_RDWR);
    accepting.join();
    watching.join();
    close(listener);
    for (auto &client : clients)
      client->socket->shutdown();
    for (auto &client : clients)
      client->thread.join();
  }

private:
  int listener;
  RendezvousOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Client>> clients;
  std::map<std::string, std::string> values;
  std::multimap<std::string, std::shared_ptr<WireSocket>> waiting; ///< by key
  std::set<int32_t> arrived;
  Status verdict;
  bool isStopping = false;
  Clock::time_point start = Clock::now();
  std::thread accepting, watching;

  void acceptLoop() {
    while (true) {
      int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      std::lock_guard lock(mutex);
      if (isStopping || fd < 0) {
        if (fd >= 0)
          close(fd);
        if (isStopping)
          return;
        continue;
      }
      auto client = std::make_unique<Client>();
      client->socket = std::make_shared<WireSocket>(fd);
      Client *raw = client.get();
      clients.push_back(std::move(client));
      raw->thread = std::thread([this, raw] { serve(*raw); });
    }
  }

  void serve(Client &client) {
    WireMessage message;
    while (client.socket->receive(message)) {
      std::lock_guard lock(mutex);
      client.lastSeen = Clock::now();
      handle(client, message);
    }
    std::lock_guard lock(mutex);
    if (client.rank >= 0 && !client.hasLeft && !isStopping) {
      client.hasLeft = true;
      declare(Status::peerLost("rank " + std::to_string(client.rank) + " on " + client.host +
                               " is gone (its connection closed)"));
    }
    changed.notify_all();
  }

  void handle(Client &client, const WireMessage &message) {
    switch (message.kind) {
    case WireKind::Hello:
      return greet(client, message);
    case WireKind::Put: {
      values[message.key] = message.value;
      auto [first, last] = waiting.equal_range(message.key);
      for (auto it = first; it != last; ++it)
        it->second->send({WireKind::Value, 0, 0, message.key, message.value});
      waiting.erase(first, last);
      return;
    }
    case WireKind::Get:
      if (auto found = values.find(message.key); found != values.end())
        client.socket->send({WireKind::Value, 0, 0, message.key, found->second});
      else
        waiting.emplace(message.key, client.socket);
      return;
    case WireKind::Fail:
      client.hasLeft = true;
      return declare(Status::peerLost("rank " + std::to_string(client.rank) + " on " + client.host +
                                      " failed: " + message.value));
    case WireKind::Bye:
      client.hasLeft = true;
      changed.notify_all();
      return;
    default:
      return;
    }
  }

  void greet(Client &client, const WireMessage &message) {
    client.host = message.value;
    if (message.b != options.worldSize)
      return declare(Status::mismatch("rank " + std::to_string(message.a) + " on " + message.value +
                                      " expects a world of " + std::to_string(message.b) +
                                      " ranks, rank 0 one of " +
                                      std::to_string(options.worldSize)));
    if (message.a < 0 || message.a >= options.worldSize || !arrived.insert(message.a).second)
      return declare(Status::mismatch("rank " + std::to_string(message.a) +
                                      " came twice or is out of range (world of " +
                                      std::to_string(options.worldSize) + ")"));
    client.rank = message.a;
    if (!verdict.isOk())
      client.socket->send({WireKind::Verdict, verdict.exitCode(), 0, "", verdict.message()});
  }

  /// The first verdict stands. Called with the lock held.
  void declare(const Status &status) {
    if (!verdict.isOk())
      return;
    verdict = status;
    for (auto &client : clients)
      client->socket->send({WireKind::Verdict, status.exitCode(), 0, "", status.message()});
    changed.notify_all();
  }

  void watchLoop() {
    std::unique_lock lock(mutex);
    while (!isStopping) {
      changed.wait_for(lock, kPingInterval);
      auto now = Clock::now();
      for (auto &client : clients)
        if (client->rank >= 0 && !client->hasLeft && now - client->lastSeen > options.hangTimeout) {
          client->hasLeft = true;
          declare(Status::peerLost("rank " + std::to_string(client->rank) + " on " + client->host +
                                   " is stuck (no heartbeat for " +
                                   std::to_string(options.hangTimeout.count() / 1000) + " s)"));
        }
      if (now - start > options.arrivalTimeout && arrived.size() < size_t(options.worldSize))
        declare(Status::peerLost(
            "only " + std::to_string(arrived.size()) + " of " + std::to_string(options.worldSize) +
            " ranks arrived; missing is rank " + std::to_string(firstMissing())));
    }
  }

  int32_t firstMissing() const {
    for (int32_t rank = 0; rank < options.worldSize; ++rank)
      if (!arrived.count(rank))
        return rank;
    return -1;
  }

  void waitForGoodbyes() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kGoodbyePatience, [this] {
      for (auto &client : clients)
        if (client->rank >= 0 && !client->hasLeft)
          return false;
      return true;
    });
  }
};

class TcpRendezvous : public Rendezvous {
public:
  TcpRendezvous(std::unique_ptr<Server> server, int fd, const RendezvousOptions &options,
                std::string where)
      : server(std::move(server)), socket(fd), options(options), where(std::move(where)) {
    socket.send({WireKind::Hello, options.rank, options.worldSize, "", ownHostName()});
    receiving = std::thread([this] { receiveLoop(); });
    pinging = std::thread([this] { pingLoop(); });
  }

  ~TcpRendezvous() override {
    leave();
    {
      std::lock_guard lock(mutex);
      isStopping = true;
      changed.notify_all();
    }
    pinging.join();
    server.reset(); // waits for the others' goodbyes
    socket.shutdown();
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

  void fail(const Status &reason) override {
    if (!hasLeft.exchange(true))
      socket.send({WireKind::Fail, reason.exitCode(), 0, "", reason.message()});
  }
  void leave() override {
    if (!hasLeft.exchange(true))
      socket.send({WireKind::Bye, 0, 0, "", ""});
  }

private:
  std::unique_ptr<Server> server; ///< rank 0 only
  WireSocket socket;
  RendezvousOptions options;
  std::string where;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  Status current;
  bool isStopping = false;
  std::atomic<bool> hasLeft{false};
  std::thread receiving, pinging;

  Status lost() const {
    return Status::peerLost("rank 0 at " + where + " is gone (its connection closed)");
  }

  void receiveLoop() {
    WireMessage message;
    while (socket.receive(message)) {
      std::lock_guard lock(mutex);
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
      lock.unlock();
      socket.send({WireKind::Ping, 0, 0, "", ""});
      lock.lock();
    }
  }
};

} // namespace

Result<std::unique_ptr<Rendezvous>> createTcpRendezvous(const std::string &host, uint16_t port,
                                                        const RendezvousOptions &options) {
  std::unique_ptr<Server> server;
  if (options.rank == 0) {
    auto listener = listenOn(port);
    if (!listener)
      return listener.status();
    server = std::make_unique<Server>(*listener, options);
  }
  auto fd = connectTo(options.rank == 0 ? "localhost" : host, port, options.arrivalTimeout.count());
  if (!fd)
    return fd.status();
  std::string where = host + ":" + std::to_string(port);
  return std::unique_ptr<Rendezvous>(new TcpRendezvous(std::move(server), *fd, options, where));
}

} // namespace autopar::runtime
