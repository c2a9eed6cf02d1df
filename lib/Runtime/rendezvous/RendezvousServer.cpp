// SPDX-License-Identifier: Apache-2.0
// A server thread in rank 0's process and one connection per rank (rank 0 included). A connection
// that closes without goodbye, or is silent for too long, is a dead rank; the server tells
// everybody. It answers heartbeats, so that a rank whose network is gone finds out too.
#include "RendezvousServer.h"

#include "Wire.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace autopar::runtime {
namespace {

using Clock = std::chrono::steady_clock;
/// How long rank 0 stays for the others' goodbyes.
constexpr auto kGoodbyePatience = std::chrono::seconds(5);

std::string seconds(std::chrono::milliseconds time) {
  return std::to_string(time.count() / 1000) + " s";
}

/// One connected rank, as the server sees it.
struct Client {
  std::shared_ptr<WireSocket> socket;
  std::thread thread;
  int32_t rank = -1;
  std::string host;
  Clock::time_point lastSeen = Clock::now();
  bool hasLeft = false;
};

} // namespace

Status silentRank(const std::string &who, std::chrono::milliseconds time) {
  return Status::peerLost(who + " is stuck (no heartbeat for " + seconds(time) +
                          "): its process is stopped, or its machine or the network is down");
}

class RendezvousServer::State {
public:
  State(int listener, const RendezvousOptions &options) : listener(listener), options(options) {
    accepting = std::thread([this] { acceptLoop(); });
    watching = std::thread([this] { watchLoop(); });
  }

  ~State() {
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
    case WireKind::Put:
      return publish(message.key, message.value);
    case WireKind::Get:
      if (auto found = values.find(message.key); found != values.end())
        client.socket->send({WireKind::Value, 0, 0, message.key, found->second});
      else
        waiting.emplace(message.key, client.socket);
      return;
    case WireKind::Fail:
      client.hasLeft = true;
      changed.notify_all();
      return declare(Status::peerLost("rank " + std::to_string(client.rank) + " on " + client.host +
                                      " failed: " + message.value));
    case WireKind::Bye:
      client.hasLeft = true;
      changed.notify_all();
      return;
    case WireKind::Ping:
      client.socket->send({WireKind::Ping, 0, 0, "", ""});
      return;
    default:
      return;
    }
  }

  void publish(const std::string &key, const std::string &value) {
    values[key] = value;
    auto [first, last] = waiting.equal_range(key);
    for (auto it = first; it != last; ++it)
      it->second->send({WireKind::Value, 0, 0, key, value});
    waiting.erase(first, last);
  }

  void greet(Client &client, const WireMessage &message) {
    client.host = message.value;
    std::string who = "rank " + std::to_string(message.a) + " on " + message.value;
    if (message.b != options.worldSize)
      return refuse(client, who + " expects a world of " + std::to_string(message.b) +
                                " ranks, rank 0 one of " + std::to_string(options.worldSize));
    if (message.a < 0 || message.a >= options.worldSize || arrived.count(message.a))
      return refuse(client, who + " came twice or is out of range (world of " +
                                std::to_string(options.worldSize) + ")");
    arrived.insert(message.a);
    client.rank = message.a;
    client.socket->send({WireKind::Welcome, 0, 0, "", ownHostName()});
    if (!verdict.isOk())
      client.socket->send({WireKind::Verdict, verdict.exitCode(), 0, "", verdict.message()});
    if (isComplete())
      publish(kAddressKey, ownAddress());
  }

  /// Who comes while ranks are missing is one of this job, whose other ranks then have to know. Who
  /// comes later is of another job and does not concern it.
  void refuse(Client &client, const std::string &why) {
    if (!isComplete())
      return declare(Status::mismatch(why));
    Status status = Status::mismatch(why + "; another job listens here: choose another port");
    client.socket->send({WireKind::Verdict, status.exitCode(), 0, "", status.message()});
  }

  bool isComplete() const { return arrived.size() == size_t(options.worldSize); }

  /// The address at which ranks of other machines came in; a loopback where there are none.
  std::string ownAddress() const {
    for (auto &client : clients)
      if (std::string address = ownAddressOf(client->socket->descriptor()); !address.empty())
        return address;
    return "127.0.0.1";
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
          declare(silentRank("rank " + std::to_string(client->rank) + " on " + client->host,
                             options.hangTimeout));
        }
      if (now - start > options.arrivalTimeout && !isComplete())
        declare(Status::peerLost("only " + std::to_string(arrived.size()) + " of " +
                                 std::to_string(options.worldSize) + " ranks arrived at " +
                                 ownHostName() + " within " + seconds(options.arrivalTimeout) +
                                 "; missing is rank " + std::to_string(firstMissing()) +
                                 ": is it started, and does its MASTER_ADDR lead here?"));
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

RendezvousServer::RendezvousServer(int listener, const RendezvousOptions &options)
    : state(std::make_unique<State>(listener, options)) {}
RendezvousServer::~RendezvousServer() = default;

} // namespace autopar::runtime
