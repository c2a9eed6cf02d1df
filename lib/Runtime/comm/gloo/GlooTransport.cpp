// SPDX-License-Identifier: Apache-2.0
// Messages over TCP, carried by Gloo. A plugin (libautopar_gloo.so): its exceptions end here. Gloo
// only offers blocking waits, so one thread waits for sends and one for receives, in the order of
// posting; collectives never post a receive whose sender depends on a later one. Messages are given
// to Gloo by the thread of its device.
#include "autopar/Runtime/Rendezvous.h"
#include "autopar/Runtime/Transport.h"

#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/loop.h>
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <stop_token>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace autopar::runtime {
namespace {

/// Waits never time out by themselves: the rendezvous decides who is stuck.
constexpr auto kForever = std::chrono::hours(24 * 365);
constexpr auto kGoodbyePatience = std::chrono::seconds(10);

/// Connections between all ranks. Made here and not by Gloo's own rendezvous, which does not say
/// which rank it cannot reach.
class Mesh : public gloo::Context {
public:
  explicit Mesh(const TransportOptions &options)
      : gloo::Context(options.rank, options.worldSize), options(options) {}

  Status connect() {
    AUTOPAR_RETURN_IF_ERROR(publish());
    std::jthread watching([this](std::stop_token stop) { endWithVerdict(std::move(stop)); });
    for (int32_t peer = 0; peer < size; ++peer)
      if (peer != rank)
        AUTOPAR_RETURN_IF_ERROR(connectTo(peer));
    return Status::ok();
  }

private:
  const TransportOptions &options;

  static std::string keyOf(int32_t from, int32_t to) {
    return "gloo/" + std::to_string(from) + "/" + std::to_string(to);
  }

  /// Listens for every peer, and says where: a host, a zero byte, Gloo's address.
  Status publish() {
    try {
      gloo::transport::tcp::attr attributes;
      attributes.hostname = options.host;
      device_ = gloo::transport::tcp::CreateDevice(attributes);
      transportContext_ = device_->createContext(rank, size);
      // Connecting waits five times as long.
      transportContext_->setTimeout(options.timeout / 5);
      for (int32_t peer = 0; peer < size; ++peer) {
        if (peer == rank)
          continue;
        std::vector<char> bytes = transportContext_->createPair(peer)->address().bytes();
        AUTOPAR_RETURN_IF_ERROR(options.rendezvous->put(
            keyOf(rank, peer), options.host + '\0' + std::string(bytes.begin(), bytes.end())));
      }
    } catch (const std::exception &error) {
      return {StatusCode::NoDevice, "rank " + std::to_string(rank) + " cannot listen at " +
                                        options.host + ": " + error.what() +
                                        "; AUTOPAR_HOST has to name an address of this machine"};
    }
    return Status::ok();
  }

  /// Gloo waits for a peer that does not come any more until its time is up, unless the pair
  /// closes.
  void endWithVerdict(std::stop_token stop) {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    while (options.rendezvous->verdict().isOk())
      if (changed.wait_for(lock, stop, std::chrono::milliseconds(50),
                           [&] { return stop.stop_requested(); }))
        return;
    for (int32_t peer = 0; peer < size; ++peer)
      try {
        if (peer != rank)
          transportContext_->getPair(peer)->close();
      } catch (const std::exception &) {
        // Who waits for this pair waits until its time is up.
      }
  }

  Status connectTo(int32_t peer) {
    auto listens = options.rendezvous->get(keyOf(peer, rank), options.timeout);
    if (!listens)
      return listens.status();
    size_t end = listens->find('\0');
    try {
      transportContext_->getPair(peer)->connect({listens->begin() + end + 1, listens->end()});
    } catch (const std::exception &error) {
      return Status::peerLost(
          "rank " + std::to_string(rank) + " at " + options.host + " cannot connect with rank " +
          std::to_string(peer) + " at " + listens->substr(0, end) + ": " + error.what() +
          "; firewalls have to let the hosts connect at every port, and AUTOPAR_HOST names the "
          "address of a host that the others reach");
    }
    return options.rendezvous->verdict(); // a pair that closed counts as connected
  }
};

/// The TCP sockets of this process: by number of the inode, which is another one once a descriptor
/// is used again.
std::map<ino_t, int> tcpSockets() {
  std::map<ino_t, int> sockets;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
  for (; !error && entry != end; entry.increment(error)) {
    int fd = std::atoi(entry->path().filename().c_str()), protocol = 0;
    socklen_t length = sizeof(protocol);
    struct stat status {};
    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 &&
        protocol == IPPROTO_TCP && fstat(fd, &status) == 0)
      sockets[status.st_ino] = fd;
  }
  return sockets;
}

/// Gloo hides its sockets, and the system tries for a quarter of an hour to get bytes through to a
/// host that is gone. Those that were there `before` are of others.
void limitUnacknowledged(std::chrono::milliseconds limit, const std::map<ino_t, int> &before) {
  auto limitMs = static_cast<unsigned>(limit.count());
  for (auto [inode, fd] : tcpSockets())
    if (!before.contains(inode))
      setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limitMs, sizeof(limitMs));
}

struct Message {
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  int32_t peer = 0;
  uint64_t tag = 0;
  bool isSend = false;
  std::atomic<int> state{0}; ///< 0 under way, 1 done, 2 failed
  std::string error;
};

/// Gives messages to Gloo on the thread of its device, in their order. That thread asks again and
/// again for a connection that another one has locked; on one core it would keep the other from
/// ever unlocking it until its slice of time ends, some milliseconds.
class Poster : public gloo::transport::tcp::Handler {
public:
  explicit Poster(std::shared_ptr<gloo::transport::tcp::Device> device)
      : device(std::move(device)), wakes(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (wakes < 0)
      throw std::runtime_error("eventfd: " + std::string(std::strerror(errno)));
    this->device->registerDescriptor(wakes, EPOLLIN, this);
  }
  ~Poster() override {
    device->unregisterDescriptor(wakes, this);
    close(wakes);
  }
  void add(std::shared_ptr<Message> message) {
    std::lock_guard lock(mutex);
    queue.push_back(std::move(message));
    if (queue.size() == 1)
      eventfd_write(wakes, 1);
  }

  void handleEvents(int) override {
    std::vector<std::shared_ptr<Message>> posted;
    {
      std::lock_guard lock(mutex);
      eventfd_t count;
      eventfd_read(wakes, &count);
      posted.swap(queue);
    }
    for (const std::shared_ptr<Message> &message : posted)
      post(*message);
  }

private:
  std::shared_ptr<gloo::transport::tcp::Device> device;
  int wakes;
  std::mutex mutex;
  std::vector<std::shared_ptr<Message>> queue;

  static void post(Message &message) {
    try {
      if (message.isSend)
        message.buffer->send(message.peer, message.tag);
      else
        message.buffer->recv(message.peer, message.tag);
    } catch (const std::exception &error) {
      message.error = error.what();
      // Whoever waits for it finds that it has failed.
      message.isSend ? message.buffer->abortWaitSend() : message.buffer->abortWaitRecv();
    }
  }
};

/// A thread that waits for messages of one direction, first posted first.
class Waiter {
public:
  Waiter(bool isSend, std::function<void()> notify) : isSend(isSend), notify(std::move(notify)) {
    thread = std::thread([this] { loop(); });
  }
  ~Waiter() {
    std::unique_lock lock(mutex);
    isStopping = true;
    // The thread may be between taking a message and waiting for it, so the abort is repeated.
    while (!hasStopped) {
      if (current)
        isSend ? current->buffer->abortWaitSend() : current->buffer->abortWaitRecv();
      changed.notify_all();
      stopped.wait_for(lock, std::chrono::milliseconds(10));
    }
    lock.unlock();
    thread.join();
  }
  void add(std::shared_ptr<Message> message) {
    std::lock_guard lock(mutex);
    queue.push_back(std::move(message));
    changed.notify_all();
  }

private:
  bool isSend;
  std::function<void()> notify;
  std::mutex mutex;
  std::condition_variable changed, stopped;
  std::deque<std::shared_ptr<Message>> queue;
  std::shared_ptr<Message> current;
  bool isStopping = false, hasStopped = false;
  std::thread thread;

  void loop() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return isStopping || !queue.empty(); });
      if (isStopping)
        break;
      current = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      waitFor(*current);
      notify();
      lock.lock();
      current.reset();
    }
    hasStopped = true;
    stopped.notify_all();
  }

  void waitFor(Message &message) {
    try {
      auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(kForever);
      bool isComplete = isSend ? message.buffer->waitSend(limit) : message.buffer->waitRecv(limit);
      message.state = isComplete ? 1 : 2;
    } catch (const std::exception &error) {
      message.error = error.what();
      message.state = 2;
    }
  }
};

class GlooTransport : public Transport {
public:
  explicit GlooTransport(const TransportOptions &options) : options(options) {}

  ~GlooTransport() override {
    if (context && !isAborted)
      sayGoodbye();
    poster.reset();
    sends.reset();
    receives.reset();
    messages.clear();
    try {
      if (context)
        context->closeConnections();
      context.reset();
    } catch (const std::exception &) {
      // Closing what a dead peer has closed already is no news.
    }
  }

  Status connect() {
    // Gloo writes to sockets that a dead peer has closed; that has to be an error, not the end.
    std::signal(SIGPIPE, SIG_IGN);
    auto mesh = std::make_shared<Mesh>(options);
    std::map<ino_t, int> others = tcpSockets();
    AUTOPAR_RETURN_IF_ERROR(mesh->connect());
    limitUnacknowledged(options.hangTimeout, others);
    context = mesh;
    try {
      poster = std::make_unique<Poster>(
          std::static_pointer_cast<gloo::transport::tcp::Device>(mesh->getDevice()));
    } catch (const std::exception &error) {
      return {StatusCode::NoPermission, std::string("Gloo: ") + error.what()};
    }
    sends = std::make_unique<Waiter>(true, [this] { notify(); });
    receives = std::make_unique<Waiter>(false, [this] { notify(); });
    return Status::ok();
  }

  int32_t rank() const override { return options.rank; }
  int32_t worldSize() const override { return options.worldSize; }

  Result<MessageId> send(int32_t peer, uint64_t tag, const void *data, size_t bytes) override {
    return post(peer, tag, const_cast<void *>(data), bytes, true);
  }
  Result<MessageId> receive(int32_t peer, uint64_t tag, void *data, size_t bytes) override {
    return post(peer, tag, data, bytes, false);
  }

  Result<bool> test(MessageId id) override {
    auto found = messages.find(id);
    if (found == messages.end())
      return Status::internal("unknown message");
    Message &message = *found->second;
    int state = message.state.load();
    if (state == 0)
      return false;
    if (state == 2)
      return lost(message.peer, message.error);
    messages.erase(found);
    return true;
  }

  void wait(std::chrono::microseconds limit) override {
    std::unique_lock lock(mutex);
    if (seen == changes)
      changed.wait_for(lock, limit);
    seen = changes;
  }

  void abort(const Status &reason) override {
    isAborted = true;
    options.rendezvous->fail(reason);
  }

private:
  TransportOptions options;
  std::shared_ptr<gloo::Context> context;
  std::unique_ptr<Poster> poster;
  std::unique_ptr<Waiter> sends, receives;
  std::unordered_map<MessageId, std::shared_ptr<Message>> messages;
  MessageId next = 1;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t changes = 0, seen = 0;
  std::atomic<bool> isAborted{false};

  void notify() {
    std::lock_guard lock(mutex);
    ++changes;
    changed.notify_all();
  }

  Status lost(int32_t peer, const std::string &error) const {
    return Status::peerLost("the connection to rank " + std::to_string(peer) + " broke: " + error);
  }

  Result<MessageId> post(int32_t peer, uint64_t tag, void *data, size_t bytes, bool isSend) {
    auto message = std::make_shared<Message>();
    message->peer = peer;
    message->tag = tag;
    message->isSend = isSend;
    if (bytes == 0) {
      message->state = 1;
    } else {
      try {
        message->buffer = context->createUnboundBuffer(data, bytes);
      } catch (const std::exception &error) {
        return lost(peer, error.what());
      }
      poster->add(message);
      (isSend ? sends : receives)->add(message);
    }
    messages.emplace(next, std::move(message));
    return next++;
  }

  /// Gloo drops bytes that are still on their way when a connection closes, so all ranks meet
  /// first.
  void sayGoodbye() {
    if (!options.rendezvous->put("goodbye/" + std::to_string(options.rank), "1").isOk())
      return;
    for (int32_t peer = 0; peer < options.worldSize; ++peer)
      if (!options.rendezvous->get("goodbye/" + std::to_string(peer), kGoodbyePatience).isOk())
        return;
  }
};

} // namespace
} // namespace autopar::runtime

extern "C" autopar::runtime::Transport *
autoparCreateTransport(const autopar::runtime::TransportOptions *options, autopar::Status *status) {
  auto transport = std::make_unique<autopar::runtime::GlooTransport>(*options);
  *status = transport->connect();
  return status->isOk() ? transport.release() : nullptr;
}
