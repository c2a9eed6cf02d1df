// SPDX-License-Identifier: Apache-2.0
// The CPU device: one mapped arena per space, oneDNN for products and convolutions, generated
// kernels for the rest. Instructions complete while they are issued, on the threads that this rank
// owns.
#include "UsefulThreads.h"

#include "autopar/Artifact/Layout.h"
#include "autopar/CpuMath/AttentionCall.h"
#include "autopar/CpuMath/GroupedProductCall.h"
#include "autopar/CpuMath/LibraryCalls.h"
#include "autopar/CpuMath/OpenMP.h"
#include "autopar/CpuMath/PackedSize.h"
#include "autopar/CpuMath/ThreadPlacement.h"
#include "autopar/Runtime/Device.h"
#include "autopar/Runtime/KernelLibrary.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unordered_map>

namespace autopar::runtime {
namespace {

using namespace artifact;
using namespace cpumath;

/// Zeroed, page-aligned memory that the system backs when it is touched.
class Arena {
public:
  Arena() = default;
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;
  ~Arena() {
    if (base)
      munmap(base, size_t(bytes));
  }
  Status allocate(int64_t wanted) {
    if (wanted == 0)
      return Status::ok();
    void *mapping =
        mmap(nullptr, size_t(wanted), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
      return {StatusCode::NoDevice, "cannot allocate an arena of " + std::to_string(wanted) +
                                        " bytes: " + std::strerror(errno)};
    base = static_cast<uint8_t *>(mapping);
    bytes = wanted;
    // Weights and activations are walked through in order: large pages spare most address lookups.
    // Where the system offers none, small ones do.
    madvise(mapping, size_t(wanted), MADV_HUGEPAGE);
    return Status::ok();
  }
  uint8_t *data() const { return base; }

private:
  uint8_t *base = nullptr;
  int64_t bytes = 0;
};

/// What a parallel kernel call hands to its threads.
struct KernelCall {
  KernelFunction function;
  void *const *args;
  int64_t extent;
};

void runShare(void *data) {
  auto &call = *static_cast<KernelCall *>(data);
  int64_t threads = omp_get_num_threads(), self = omp_get_thread_num();
  int64_t begin = call.extent * self / threads, end = call.extent * (self + 1) / threads;
  if (begin < end)
    call.function(call.args, begin, end);
}

class CpuDevice : public Device {
public:
  CpuDevice(std::shared_ptr<const KernelLibrary> kernels, int32_t threads)
      : kernels(std::move(kernels)), threads(std::max(threads, 1)) {}

  using Device::prepare;
  Status prepare(const Program &wanted, BufferPlaces given,
                 std::span<const int64_t> values) override {
    program = &wanted;
    places = std::move(given);
    rankValues = values;
    threads = usefulThreads(wanted, threads);
    placement = ThreadPlacement(threads);
    omp_set_num_threads(threads);
    for (size_t space = 0; space < kSpaceCount; ++space) {
      if (Space(space) == Space::Disk && program->arenaBytes[space] > 0)
        return {StatusCode::NoDevice,
                "the program wants disk buffers, which the cpu device does not offer"};
      AUTOPAR_RETURN_IF_ERROR(arenas[space].allocate(places->arenaBytes(Space(space))));
    }
    for (size_t i = 0; i < program->buffers.size(); ++i) {
      uint8_t *elsewhere = places->elsewhere(int32_t(i));
      addresses.push_back(elsewhere ? elsewhere
                                    : arenas[size_t(program->buffers[i].space)].data() +
                                          std::max<int64_t>(places->offset(int32_t(i)), 0));
    }
    for (const Entry &entry : program->entries)
      for (const Instruction &instruction : entry.instructions)
        if (Status status = create(instruction); !status.isOk())
          return status.at(entry.placeOf(instruction));
    AUTOPAR_RETURN_IF_ERROR(placePacked());
    return placeScratch();
  }

  void *arena() override { return arenas[size_t(Space::Device)].data(); }
  void *address(int32_t buffer, int32_t slot) override {
    const Buffer &b = program->buffers[size_t(buffer)];
    return addresses[size_t(buffer)] + (b.slots > 1 ? slot * b.slotStride : 0);
  }

  Result<Token> issue(const Instruction &instruction, int32_t slot,
                      std::span<const Token>) override {
    omp_set_num_threads(threads); // of the calling thread, which may be another than before
    placement.check();
    kernelThreads = usefulThreads(instruction, threads);
    Status status =
        std::visit([&](const auto &payload) { return run(payload, slot); }, instruction.payload);
    if (!status.isOk())
      return status;
    return Token{0};
  }
  Result<bool> test(Token) override { return true; }

  Status write(int32_t buffer, int64_t offset, const void *data, int64_t bytes) override {
    if (bytes > 0)
      std::memcpy(static_cast<uint8_t *>(address(buffer, 0)) + offset, data, size_t(bytes));
    return Status::ok();
  }
  Status read(int32_t buffer, int64_t offset, void *data, int64_t bytes) override {
    if (bytes > 0)
      std::memcpy(data, static_cast<uint8_t *>(address(buffer, 0)) + offset, size_t(bytes));
    return Status::ok();
  }

  std::string packedLayout(const Program &of, const Pack &pack) const override {
    ThreadCountScope scope(usefulThreads(of, threads));
    return cpumath::packedLayout(pack);
  }

  const void *hostAddress(int32_t buffer) override { return address(buffer, 0); }

  int64_t unplannedBytes() const override { return unplanned; }

private:
  std::shared_ptr<const KernelLibrary> kernels;
  int32_t threads;           ///< from prepare() on those that the program has a use for
  int32_t kernelThreads = 1; ///< of a launch that is being issued
  ThreadPlacement placement{1};
  const Program *program = nullptr;
  std::span<const int64_t> rankValues; ///< while the program is prepared
  std::optional<BufferPlaces> places;
  Arena arenas[kSpaceCount];
  std::vector<uint8_t *> addresses;                     ///< of buffers, of slot 0
  std::unordered_map<const void *, MatmulCall> matmuls; ///< by payload address
  std::unordered_map<const void *, ConvolutionCall> convolutions;
  std::unordered_map<const void *, AttentionCall> attentions;
  std::unordered_map<const void *, GroupedProductCall> groupedProducts;
  std::unordered_map<const void *, ReorderCall> reorders;
  /// Packed weights and scratch that this machine wants larger than planned. Several layouts may
  /// take turns in one buffer; the largest counts.
  std::map<int32_t, int64_t> packedBytes;
  std::vector<std::unique_ptr<Arena>> relocated;
  Arena extraScratch;
  int64_t extraScratchBytes = 0, unplanned = 0;

  int64_t plannedBytes(int32_t buffer) const {
    return buffer < 0 ? 0 : program->buffers[size_t(buffer)].bytes;
  }

  /// One shared area serves all instructions whose planned scratch is too small: they run one by
  /// one.
  void wantScratch(int32_t buffer, int64_t bytes) {
    if (bytes > plannedBytes(buffer))
      extraScratchBytes = std::max(extraScratchBytes, bytes);
  }
  Status placeScratch() {
    unplanned += extraScratchBytes;
    return extraScratch.allocate(extraScratchBytes);
  }
  void *scratchFor(int32_t buffer, int64_t bytes, int32_t slot) {
    if (bytes == 0)
      return nullptr;
    return bytes > plannedBytes(buffer) ? extraScratch.data() : address(buffer, slot);
  }

  void wantPacked(int32_t buffer, int64_t bytes) {
    if (bytes > plannedBytes(buffer) && !places->isHeldElsewhere(buffer))
      packedBytes[buffer] = std::max(packedBytes[buffer], bytes);
  }
  Status placePacked() {
    for (auto [buffer, bytes] : packedBytes) {
      auto arena = std::make_unique<Arena>();
      AUTOPAR_RETURN_IF_ERROR(arena->allocate(bytes));
      unplanned += bytes;
      addresses[size_t(buffer)] = arena->data();
      relocated.push_back(std::move(arena));
    }
    return Status::ok();
  }

  Status checkLoaded(int32_t kernel) const {
    return kernels
               ? Status::ok()
               : Status::internal("kernel " + program->kernels[size_t(kernel)] + " was not loaded");
  }

  Status create(const Instruction &instruction) {
    if (auto *p = std::get_if<Launch>(&instruction.payload))
      return checkLoaded(p->kernel);
    if (auto *p = std::get_if<Matmul>(&instruction.payload)) {
      auto call = MatmulCall::create(p->geometry);
      if (!call)
        return call.status();
      wantScratch(p->scratch, call->scratchBytes());
      if (p->geometry.packedB)
        wantPacked(p->b, call->packedBytes());
      matmuls.emplace(p, call.take());
    } else if (auto *p = std::get_if<Convolution>(&instruction.payload)) {
      auto call = ConvolutionCall::create(p->geometry);
      if (!call)
        return call.status();
      wantScratch(p->scratch, call->scratchBytes());
      if (p->geometry.packedW)
        wantPacked(p->w, call->packedBytes());
      convolutions.emplace(p, call.take());
    } else if (auto *p = std::get_if<Attention>(&instruction.payload)) {
      auto call = AttentionCall::create(p->geometryOf(rankValues), threads);
      if (!call)
        return call.status();
      wantScratch(p->scratch, call->scratchBytes());
      attentions.emplace(p, call.take());
    } else if (auto *p = std::get_if<GroupedProduct>(&instruction.payload)) {
      if (p->maker)
        AUTOPAR_RETURN_IF_ERROR(checkLoaded(p->maker->kernel));
      auto call = GroupedProductCall::create(p->geometry);
      if (!call)
        return call.status();
      wantScratch(p->scratch, call->scratchBytes());
      groupedProducts.emplace(p, call.take());
    } else if (auto *p = std::get_if<Pack>(&instruction.payload)) {
      return createPack(*p);
    } else if (auto *p = std::get_if<Reorder>(&instruction.payload)) {
      auto call = ReorderCall::create(*p);
      if (!call)
        return call.status();
      reorders.emplace(p, call.take());
    }
    return Status::ok();
  }

  Status createPack(const Pack &p) {
    auto keep = [&](auto &calls, auto call) {
      if (!call)
        return call.status();
      wantPacked(p.dst, call->packedBytes());
      calls.emplace(&p, call.take());
      return Status::ok();
    };
    if (auto *g = std::get_if<MatmulGeometry>(&p.geometry))
      return keep(matmuls, MatmulCall::createPacking(*g));
    return keep(convolutions,
                ConvolutionCall::createPacking(std::get<ConvolutionGeometry>(p.geometry)));
  }

  void *addressOrNull(int32_t buffer, int32_t slot) {
    return buffer < 0 ? nullptr : address(buffer, slot);
  }

  Status run(const Launch &p, int32_t slot) {
    void *addresses[64];
    std::vector<void *> many;
    void **args = addresses;
    if (p.args.size() > 64) {
      many.resize(p.args.size());
      args = many.data();
    }
    for (size_t i = 0; i < p.args.size(); ++i)
      args[i] = address(p.args[i], slot);
    KernelCall call{kernels->function(p.kernel), args, p.extent};
    int64_t useful = std::min<int64_t>(kernelThreads, p.extent);
    if (useful > 1)
      GOMP_parallel(runShare, &call, unsigned(useful), 0);
    else if (p.extent > 0)
      call.function(args, 0, p.extent);
    return Status::ok();
  }
  Status run(const Matmul &p, int32_t slot) {
    const MatmulCall &call = matmuls.at(&p);
    return call.run(address(p.a, slot), address(p.b, slot), address(p.c, slot),
                    addressOrNull(p.bias, slot), addressOrNull(p.residual, slot),
                    scratchFor(p.scratch, call.scratchBytes(), slot));
  }
  Status run(const Convolution &p, int32_t slot) {
    const ConvolutionCall &call = convolutions.at(&p);
    return call.run(address(p.x, slot), address(p.w, slot), address(p.y, slot),
                    addressOrNull(p.bias, slot), addressOrNull(p.residual, slot),
                    scratchFor(p.scratch, call.scratchBytes(), slot));
  }
  Status run(const Attention &p, int32_t slot) {
    const AttentionCall &call = attentions.at(&p);
    void *inputs[7], *outputs[3];
    for (size_t i = 0; i < p.inputs.size(); ++i)
      inputs[i] = address(p.inputs[i], slot);
    for (size_t i = 0; i < p.outputs.size(); ++i)
      outputs[i] = address(p.outputs[i], slot);
    call.run(inputs, outputs, scratchFor(p.scratch, call.scratchBytes(), slot));
    return Status::ok();
  }
  Status run(const GroupedProduct &p, int32_t slot) {
    const GroupedProductCall &call = groupedProducts.at(&p);
    void *scratch = scratchFor(p.scratch, call.scratchBytes(), slot);
    if (!p.maker)
      return call.run(address(p.lhs, slot), address(p.rhs, slot), address(p.group, slot),
                      address(p.result, slot), scratch);
    KernelFunction function = kernels->function(p.maker->kernel);
    auto make = [&](int64_t group, int64_t part, void *columns) {
      std::vector<void *> args;
      for (size_t i = 0; i < p.maker->inputs.size(); ++i)
        args.push_back(static_cast<uint8_t *>(address(p.maker->inputs[i], slot)) +
                       group * p.maker->matrixSteps[i] + part * p.maker->columnSteps[i]);
      args.push_back(columns);
      function(args.data(), 0, p.maker->extent);
    };
    return call.run(address(p.lhs, slot), make, address(p.group, slot), address(p.result, slot),
                    scratch);
  }
  Status run(const Pack &p, int32_t slot) {
    if (std::holds_alternative<MatmulGeometry>(p.geometry))
      return matmuls.at(&p).pack(address(p.src, slot), address(p.dst, slot));
    return convolutions.at(&p).pack(address(p.src, slot), address(p.dst, slot));
  }
  Status run(const Reorder &p, int32_t slot) {
    return reorders.at(&p).run(address(p.src, slot), address(p.dst, slot));
  }
  Status run(const Copy &p, int32_t slot) {
    std::memmove(static_cast<uint8_t *>(address(p.dst, slot)) + p.dstOffset,
                 static_cast<uint8_t *>(address(p.src, slot)) + p.srcOffset, size_t(p.bytes));
    return Status::ok();
  }
  template <typename T>
  Status run(const T &, int32_t) {
    return Status::internal("this kind of instruction is not the device's");
  }
};

} // namespace

std::unique_ptr<Device> createCpuDevice(std::shared_ptr<const KernelLibrary> kernels,
                                        int32_t threads) {
  return std::make_unique<CpuDevice>(std::move(kernels), threads);
}

} // namespace autopar::runtime
