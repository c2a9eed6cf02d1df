// SPDX-License-Identifier: Apache-2.0
// Sessions of one process in one world.
#include "autopar/Runtime/Launch.h"

namespace autopar::runtime {
namespace {

class SharedTransport : public Transport {
public:
  explicit SharedTransport(std::shared_ptr<World> shared)
      : world(std::move(shared)), transport(*world->transport) {}

  int32_t rank() const override { return transport.rank(); }
  int32_t worldSize() const override { return transport.worldSize(); }
  Result<MessageId> send(int32_t peer, uint64_t tag, const void *data, size_t bytes) override {
    return transport.send(peer, tag, data, bytes);
  }
  Result<MessageId> receive(int32_t peer, uint64_t tag, void *data, size_t bytes) override {
    return transport.receive(peer, tag, data, bytes);
  }
  Result<bool> test(MessageId message) override { return transport.test(message); }
  void wait(std::chrono::microseconds limit) override { transport.wait(limit); }
  Status check() override { return transport.check(); }
  void abort(const Status &reason) override { transport.abort(reason); }
  std::optional<uint64_t> handedOver() override { return transport.handedOver(); }

private:
  std::shared_ptr<World> world;
  Transport &transport;
};

} // namespace

std::unique_ptr<Transport> shareTransport(std::shared_ptr<World> world) {
  return std::make_unique<SharedTransport>(std::move(world));
}

} // namespace autopar::runtime
