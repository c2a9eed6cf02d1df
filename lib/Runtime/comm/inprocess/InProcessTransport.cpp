// SPDX-License-Identifier: Apache-2.0
// Messages between ranks of one process: whoever comes second copies straight from the sender's
// bytes to the receiver's, or lets the receiver read them where they lie.
#include "autopar/Runtime/Communicator.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>

namespace autopar::runtime {
namespace {

/// One side of a message, until the other side is there.
struct Post {
  uint8_t *data = nullptr;
  size_t bytes = 0;
  Loan *loan = nullptr; ///< of a receiver that borrows
  std::atomic<bool> isDone{false};
};

using Key = std::tuple<int32_t, int32_t, uint64_t>; ///< sender, receiver, tag

/// What all ranks share.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t changes = 0;
  std::map<Key, std::deque<std::shared_ptr<Post>>> sends, receives;
  std::string abortReason;
  std::atomic<bool> isAborted{false};

  void notify() {
    std::lock_guard lock(mutex);
    ++changes;
    changed.notify_all();
  }
};

class InProcessTransport : public Transport {
public:
  InProcessTransport(std::shared_ptr<World> world, int32_t rank, int32_t size)
      : world(std::move(world)), ownRank(rank), size(size) {}

  int32_t rank() const override { return ownRank; }
  int32_t worldSize() const override { return size; }

  Result<MessageId> send(int32_t peer, uint64_t tag, const void *data, size_t bytes) override {
    return post({ownRank, peer, tag}, const_cast<void *>(data), bytes, nullptr, true);
  }
  Result<MessageId> receive(int32_t peer, uint64_t tag, void *data, size_t bytes) override {
    return post({peer, ownRank, tag}, data, bytes, nullptr, false);
  }
  bool lends() const override { return true; }
  Result<MessageId> borrow(int32_t peer, uint64_t tag, Loan &loan, size_t bytes) override {
    return post({peer, ownRank, tag}, nullptr, bytes, &loan, false);
  }

  Result<bool> test(MessageId message) override {
    auto found = posts.find(message);
    if (found == posts.end())
      return Status::internal("unknown message");
    if (found->second->isDone.load(std::memory_order_acquire)) {
      posts.erase(found);
      return true;
    }
    if (world->isAborted.load(std::memory_order_acquire))
      return lost();
    return false;
  }

  void wait(std::chrono::microseconds limit) override {
    std::unique_lock lock(world->mutex);
    if (seen == world->changes)
      world->changed.wait_for(lock, limit);
    seen = world->changes;
  }

  Status check() override {
    return world->isAborted.load(std::memory_order_acquire) ? lost() : Status::ok();
  }

  void abort(const Status &reason) override {
    std::lock_guard lock(world->mutex);
    if (!world->isAborted) {
      world->abortReason = "rank " + std::to_string(ownRank) + " failed: " + reason.message();
      world->isAborted = true;
    }
    ++world->changes;
    world->changed.notify_all();
  }

  std::optional<uint64_t> handedOver() override {
    std::lock_guard lock(world->mutex);
    return world->changes;
  }

private:
  std::shared_ptr<World> world;
  int32_t ownRank, size;
  std::unordered_map<MessageId, std::shared_ptr<Post>> posts;
  MessageId nextMessage = 1;
  uint64_t seen = 0;

  Status lost() {
    std::lock_guard lock(world->mutex);
    return Status::peerLost(world->abortReason);
  }

  /// Both sides are there.
  void hand(const std::shared_ptr<Post> &sender, const std::shared_ptr<Post> &receiver) {
    if (receiver->loan) {
      receiver->loan->data = sender->data;
      receiver->loan->hold = std::shared_ptr<void>(sender->data, [sender, world = world](void *) {
        sender->isDone.store(true, std::memory_order_release);
        world->notify();
      });
    } else {
      if (sender->bytes)
        std::memcpy(receiver->data, sender->data, sender->bytes);
      sender->isDone.store(true, std::memory_order_release);
    }
    receiver->isDone.store(true, std::memory_order_release);
    world->notify();
  }

  Result<MessageId> post(const Key &key, void *data, size_t bytes, Loan *loan, bool isSend) {
    auto own = std::make_shared<Post>();
    own->data = static_cast<uint8_t *>(data);
    own->bytes = bytes;
    own->loan = loan;
    std::shared_ptr<Post> other;
    {
      std::lock_guard lock(world->mutex);
      auto &waiting = isSend ? world->receives : world->sends;
      if (auto found = waiting.find(key); found != waiting.end()) {
        other = std::move(found->second.front());
        found->second.pop_front();
        if (found->second.empty())
          waiting.erase(found);
      } else {
        (isSend ? world->sends : world->receives)[key].push_back(own);
      }
    }
    if (other) {
      if (other->bytes != bytes)
        return Status::internal("ranks " + std::to_string(std::get<0>(key)) + " and " +
                                std::to_string(std::get<1>(key)) +
                                " disagree about a message's size");
      isSend ? hand(own, other) : hand(other, own);
    }
    posts.emplace(nextMessage, std::move(own));
    return nextMessage++;
  }
};

} // namespace

std::vector<std::unique_ptr<Transport>> createInProcessTransports(int32_t worldSize) {
  auto world = std::make_shared<World>();
  std::vector<std::unique_ptr<Transport>> transports;
  for (int32_t rank = 0; rank < worldSize; ++rank)
    transports.push_back(std::make_unique<InProcessTransport>(world, rank, worldSize));
  return transports;
}

} // namespace autopar::runtime
