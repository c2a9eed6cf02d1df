// SPDX-License-Identifier: Apache-2.0
// Rendezvous of ranks that are threads of one process.
#include "autopar/Runtime/Rendezvous.h"

#include <condition_variable>
#include <map>
#include <mutex>

namespace autopar::runtime {
namespace {

struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  Status verdict;
};

class InProcessRendezvous : public Rendezvous {
public:
  InProcessRendezvous(std::shared_ptr<Shared> shared, int32_t rank, int32_t size)
      : shared(std::move(shared)), ownRank(rank), size(size) {}

  int32_t rank() const override { return ownRank; }
  int32_t worldSize() const override { return size; }

  Status put(const std::string &key, const std::string &value) override {
    std::lock_guard lock(shared->mutex);
    shared->values[key] = value;
    shared->changed.notify_all();
    return Status::ok();
  }
  Result<std::string> get(const std::string &key, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(shared->mutex);
    shared->changed.wait_for(lock, timeout,
                             [&] { return shared->values.count(key) || !shared->verdict.isOk(); });
    if (auto found = shared->values.find(key); found != shared->values.end())
      return found->second;
    if (!shared->verdict.isOk())
      return shared->verdict;
    return Status::peerLost("no rank published '" + key + "' within " +
                            std::to_string(timeout.count()) + " ms");
  }
  Result<std::string> address() override { return std::string("127.0.0.1"); }
  Status verdict() override {
    std::lock_guard lock(shared->mutex);
    return shared->verdict;
  }
  void fail(const Status &reason) override {
    std::lock_guard lock(shared->mutex);
    if (shared->verdict.isOk())
      shared->verdict =
          Status::peerLost("rank " + std::to_string(ownRank) + " failed: " + reason.message());
    shared->changed.notify_all();
  }
  void leave() override {}

private:
  std::shared_ptr<Shared> shared;
  int32_t ownRank, size;
};

} // namespace

std::vector<std::unique_ptr<Rendezvous>> createInProcessRendezvous(int32_t worldSize) {
  auto shared = std::make_shared<Shared>();
  std::vector<std::unique_ptr<Rendezvous>> all;
  for (int32_t rank = 0; rank < worldSize; ++rank)
    all.push_back(std::make_unique<InProcessRendezvous>(shared, rank, worldSize));
  return all;
}

} // namespace autopar::runtime
