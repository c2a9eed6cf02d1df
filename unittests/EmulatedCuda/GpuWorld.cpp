// SPDX-License-Identifier: Apache-2.0
// One buffer per rank holds what is under way.
#include "GpuWorld.h"

#include "../../lib/Runtime/comm/nccl/NcclCommunicator.h"
#include "../../lib/Runtime/comm/staged/StagedCommunicator.h"
#include "TestDevice.h"

#include <map>

namespace autopar::testing {

using namespace artifact;
using namespace runtime;

namespace {

constexpr int64_t kBytes = int64_t{48} << 20;

/// What the suite asks a rank's NCCL for.
NcclPlan planOfSuite(int32_t rank, int32_t size) {
  NcclPlan plan;
  auto add = [&](NcclUse::Kind kind, std::vector<int32_t> members, int32_t number = 0) {
    if (std::find(members.begin(), members.end(), rank) != members.end())
      plan.uses.push_back({kind, std::move(members), number});
  };
  std::vector<int32_t> everybody, first, second;
  for (int32_t r = 0; r < size; ++r) {
    everybody.push_back(r);
    int32_t half = (size + 1) / 2;
    if (r < half)
      first.insert(first.begin(), r);
    else
      second.push_back(r);
    if (size > 1)
      add(NcclUse::Kind::Moves, {r, (r + 1) % size});
  }
  add(NcclUse::Kind::Group, everybody);
  if (first != everybody)
    add(NcclUse::Kind::Group, first);
  if (second != everybody)
    add(NcclUse::Kind::Group, second);
  if (size > 1)
    // They cross.
    for (int32_t number : {0, 1}) {
      add(NcclUse::Kind::Messages, {0, 1}, number);
      add(NcclUse::Kind::Messages, {1, 0}, number);
      plan.numbers[{0, 1, 5 + number}] = plan.numbers[{1, 0, 5 + number}] = number;
    }
  std::sort(plan.uses.begin(), plan.uses.end());
  plan.scratchBytes = 4 * size;
  return plan;
}

class OverGpu : public Communicator {
public:
  explicit OverGpu(std::unique_ptr<Communicator> own) : host(std::move(own)) {
    Buffer buffer;
    buffer.dtype = DataType::U8;
    buffer.shape = {kBytes};
    buffer.bytes = program.arenaBytes[0] = kBytes;
    program.buffers = {buffer};
  }
  Status open(bool byNccl) {
    CudaOptions options;
    options.libraries = cudaLibraries();
    options.localRank = rank();
    options.target = {"cuda", CudaTarget().toText()};
    auto made = createCudaDevice(options);
    if (!made)
      return made.status();
    device = made.take();
    AUTOPAR_RETURN_IF_ERROR(device->prepare(program));
    if (!byNccl) {
      inner = createStagedCommunicator(*host, *device);
      return Status::ok();
    }
    NcclOptions nccl;
    nccl.host = host.get();
    nccl.device = device.get();
    nccl.ids = &ids;
    nccl.plan = planOfSuite(rank(), worldSize());
    auto connected = createNcclCommunicator(std::move(nccl));
    if (!connected)
      return connected.status();
    inner = connected.take();
    return Status::ok();
  }

  int32_t rank() const override { return host->rank(); }
  int32_t worldSize() const override { return host->worldSize(); }
  Result<Token> collective(const CollectiveCall &call) override {
    int64_t bytes = call.count * byteSize(call.dtype), members = int64_t(call.members->size());
    int64_t result = call.kind == CollectiveKind::AllGather       ? bytes * members
                     : call.kind == CollectiveKind::ReduceScatter ? bytes / members
                                                                  : bytes;
    CollectiveCall own = call;
    void *input = take(call.input, bytes);
    own.input = input;
    own.output = call.input == call.output ? input : take(nullptr, result);
    return keep(inner->collective(own), own.output, call.output, result);
  }
  Result<Token> permute(const void *input, void *output, int64_t bytes, int32_t sendTo,
                        int32_t receiveFrom) override {
    void *in = take(input, bytes), *out = take(nullptr, bytes);
    return keep(inner->permute(in, out, bytes, sendTo, receiveFrom), out, output, bytes);
  }
  Result<Token> send(int32_t peer, int32_t tag, const void *data, int64_t bytes) override {
    return keep(inner->send(peer, tag, take(data, bytes), bytes), nullptr, nullptr, 0);
  }
  Result<Token> receive(int32_t peer, int32_t tag, void *data, int64_t bytes) override {
    void *out = take(nullptr, bytes);
    return keep(inner->receive(peer, tag, out, bytes), out, data, bytes);
  }
  Result<bool> test(Token token) override {
    auto done = inner->test(token);
    if (!done || !*done)
      return done;
    Pending pending = operations.at(token);
    operations.erase(token);
    if (operations.empty())
      used = 0;
    if (pending.bytes > 0)
      AUTOPAR_RETURN_IF_ERROR(device->read(0, offsetOf(pending.from), pending.to, pending.bytes));
    return true;
  }
  void wait(std::chrono::microseconds limit) override { inner->wait(limit); }
  void abort(const Status &reason) override { inner->abort(reason); }

private:
  struct Pending {
    void *from, *to;
    int64_t bytes;
  };
  std::vector<uint8_t> ids;
  std::unique_ptr<Communicator> host;
  Program program;
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> inner;
  std::map<Token, Pending> operations;
  int64_t used = 0;

  int64_t offsetOf(void *address) {
    return static_cast<uint8_t *>(address) - static_cast<uint8_t *>(device->address(0, 0));
  }
  void *take(const void *data, int64_t bytes) {
    int64_t offset = used;
    used += (bytes + 255) / 256 * 256;
    EXPECT_LE(used, kBytes);
    if (data)
      EXPECT_TRUE(device->write(0, offset, data, bytes).isOk());
    return static_cast<uint8_t *>(device->address(0, 0)) + offset;
  }
  Result<Token> keep(Result<Token> token, void *from, void *to, int64_t bytes) {
    if (token)
      operations[*token] = {from, to, bytes};
    return token;
  }
};

} // namespace

int32_t gpuCount() {
  if (isEmulated())
    setenv("AUTOPAR_EMULATED_CUDA_DEVICES", "4", 0);
  // While a message waits a kernel may not be loaded.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  auto count = countCudaDevices(cudaLibraries());
  EXPECT_TRUE(count.isOk()) << count.status().message();
  return count.isOk() ? *count : 0;
}

std::unique_ptr<Communicator> overGpu(std::unique_ptr<Communicator> host, bool byNccl) {
  auto made = std::make_unique<OverGpu>(std::move(host));
  Status status = made->open(byNccl);
  EXPECT_TRUE(status.isOk()) << status.message();
  return made;
}

} // namespace autopar::testing
