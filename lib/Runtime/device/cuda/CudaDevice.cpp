// SPDX-License-Identifier: Apache-2.0
// The CUDA device: one arena per space, a stream per queue, events where one queue waits for
// another and as tokens, generated kernels, cuBLASLt for products, cuDNN for attention and
// convolutions. Nothing is allocated in a step and nothing waits but write() and read().
#include "autopar/Runtime/CudaDevice.h"

#include "BlasProduct.h"
#include "CudaKernels.h"
#include "CudaStreams.h"
#include "CudnnPlans.h"
#include "Gpu.h"
#include "autopar/Artifact/CudaScratch.h"
#include "autopar/Artifact/CudaTarget.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace autopar::runtime {

using namespace artifact;

namespace cuda {
namespace {

/// What cuBLASLt's algorithms may want of a queue at most; only what they take is allocated.
constexpr int64_t kMostWorkspace = int64_t{32} << 20;

int64_t alignmentOf(DevicePointer address) {
  return int64_t(std::min<DevicePointer>(address & (~address + 1), 256));
}

class CudaDevice : public Device, private Staging {
public:
  CudaDevice(std::shared_ptr<Gpu> gpu, const CudaOptions &options, const CudaTarget &target)
      : gpu(std::move(gpu)), calls(this->gpu->calls()), options(options), target(target),
        plans(std::make_unique<CudnnPlans>(this->gpu)), streams(this->gpu) {}

  ~CudaDevice() override {
    if (!gpu->select().isOk())
      return;
    streams.finish();
    products.clear();
    if (blasHandle)
      (*blas)->destroy(blasHandle);
    plans.reset();
    kernels.reset();
    for (DevicePointer address : deviceMemory)
      calls.memFree(address);
    for (void *address : hostMemory)
      calls.memFreeHost(address);
  }

  using Device::prepare;
  Status prepare(const Program &wanted, BufferPlaces given,
                 std::span<const int64_t> values) override {
    program = &wanted;
    places = std::move(given);
    rankValues = values;
    AUTOPAR_RETURN_IF_ERROR(gpu->select());
    if (program->arenaBytes[size_t(Space::Disk)] > 0)
      return {StatusCode::NoDevice,
              gpu->text() +
                  ": the program wants disk buffers, which the CUDA device does not offer"};
    AUTOPAR_RETURN_IF_ERROR(allocateArenas());
    if (!options.ptx.empty()) {
      auto loaded = CudaKernels::load(gpu, target, options.ptx, options.cubin, program->kernels);
      if (!loaded)
        return loaded.status();
      kernels = loaded.take();
    }
    for (const Entry &entry : program->entries)
      for (const Instruction &instruction : entry.instructions)
        if (Status status = create(instruction); !status.isOk())
          return status.at(entry.placeOf(instruction));
    return allocateWorkspaces();
  }

  void *arena() override {
    return reinterpret_cast<void *>(uintptr_t(arenas[size_t(Space::Device)]));
  }
  void *address(int32_t buffer, int32_t slot) override {
    return reinterpret_cast<void *>(uintptr_t(at(buffer, slot)));
  }

  bool ordersInstructions() const override { return true; }

  Result<Token> issue(const Instruction &instruction, int32_t slot,
                      std::span<const Token> after) override {
    AUTOPAR_RETURN_IF_ERROR(gpu->select());
    auto stream = streams.behind(instruction.queue, after);
    if (!stream)
      return stream.status();
    AUTOPAR_RETURN_IF_ERROR(streams.startClock(*stream));
    Status issued = std::visit(
        [&](const auto &payload) { return run(payload, instruction.queue, slot, *stream); },
        instruction.payload);
    // Where a kernel has failed, a library only says that it cannot; the driver says why.
    auto token = streams.record(*stream);
    return issued.isOk() || !token ? token : Result<Token>(issued);
  }

  Result<bool> test(Token token) override {
    AUTOPAR_RETURN_IF_ERROR(gpu->select());
    return streams.test(token);
  }

  Status write(int32_t buffer, int64_t offset, const void *data, int64_t bytes) override {
    return copyNow(at(buffer, 0) + DevicePointer(offset), DevicePointer(uintptr_t(data)), bytes);
  }
  Status read(int32_t buffer, int64_t offset, void *data, int64_t bytes) override {
    return copyNow(DevicePointer(uintptr_t(data)), at(buffer, 0) + DevicePointer(offset), bytes);
  }

  Staging *staging() override { return this; }
  std::string text() const override { return gpu->text(); }
  std::string identity() const override { return gpu->uuid(); }
  CudaStreams *cudaStreams() override { return &streams; }
  Capture *capture() override { return &streams; }
  void timeInstructions(bool enabled) override { streams.timeInstructions(enabled); }
  std::optional<int64_t> lastDurationNs() const override { return streams.lastDurationNs(); }

  int64_t unplannedBytes() const override { return unplanned; }

private:
  std::shared_ptr<Gpu> gpu;
  const DriverCalls &calls;
  CudaOptions options;
  CudaTarget target;
  const Program *program = nullptr;
  std::span<const int64_t> rankValues; ///< while the program is prepared
  std::optional<BufferPlaces> places;
  DevicePointer arenas[kSpaceCount] = {};
  std::vector<DevicePointer> deviceMemory;
  std::vector<void *> hostMemory;
  std::unique_ptr<CudaKernels> kernels;
  std::optional<const BlasLtCalls *> blas;
  BlasHandle blasHandle = nullptr;
  std::unordered_map<const void *, std::unique_ptr<BlasProduct>> products; ///< by payload address
  std::unique_ptr<CudnnPlans> plans;
  std::unordered_map<const void *, const CudnnAttention *> attentions;     ///< likewise
  std::unordered_map<const void *, const CudnnConvolution *> convolutions; ///< likewise
  struct Workspace {
    DevicePointer address = 0;
    int64_t bytes = 0;
  };
  Workspace workspaces[kQueueCount];       ///< of calls whose planned scratch is too small
  std::unordered_map<int, Workspace> ones; ///< per type; addends of products
  CudaStreams streams;
  int64_t unplanned = 0;

  DevicePointer at(int32_t buffer, int32_t slot) const {
    const Buffer &b = program->buffers[size_t(buffer)];
    DevicePointer first = DevicePointer(uintptr_t(places->elsewhere(buffer)));
    if (first == 0)
      first = arenas[size_t(b.space)] + DevicePointer(places->offset(buffer));
    return first + DevicePointer(b.slots > 1 ? slot * b.slotStride : 0);
  }

  Result<DevicePointer> allocateDevice(int64_t bytes, const std::string &use) {
    size_t free = 0, total = 0;
    AUTOPAR_RETURN_IF_ERROR(gpu->check(calls.memGetInfo(&free, &total), "cuMemGetInfo"));
    auto tooLittle = [&] {
      return Status(StatusCode::NoDevice, gpu->text() + ": " + use + " of " +
                                              std::to_string(bytes) +
                                              " bytes does not fit: " + std::to_string(free) +
                                              " of " + std::to_string(total) +
                                              " bytes are free; compile with a smaller "
                                              "--memory-limit or for more ranks, or end what "
                                              "else runs on this GPU");
    };
    if (size_t(bytes) > free)
      return tooLittle();
    DevicePointer address = 0;
    DriverError error = calls.memAlloc(&address, size_t(bytes));
    if (error == DriverError::OutOfMemory)
      return tooLittle();
    AUTOPAR_RETURN_IF_ERROR(gpu->check(error, "cuMemAlloc"));
    deviceMemory.push_back(address);
    return address;
  }

  Status allocateArenas() {
    auto stream = streams.ofHost();
    if (!stream)
      return stream.status();
    if (int64_t bytes = places->arenaBytes(Space::Device); bytes > 0) {
      auto arena = allocateDevice(bytes, "the planned memory");
      if (!arena)
        return arena.status();
      arenas[size_t(Space::Device)] = *arena;
      AUTOPAR_RETURN_IF_ERROR(
          gpu->check(calls.memsetD8Async(*arena, 0, size_t(bytes), *stream), "cuMemsetD8Async"));
    }
    if (int64_t bytes = places->arenaBytes(Space::PinnedHost); bytes > 0) {
      auto arena = allocate(bytes);
      if (!arena)
        return arena.status();
      arenas[size_t(Space::PinnedHost)] = DevicePointer(uintptr_t(*arena));
      std::fill_n(static_cast<uint8_t *>(*arena), bytes, uint8_t{0});
    }
    return gpu->check(calls.streamSynchronize(*stream), "cuStreamSynchronize");
  }

  Status copyNow(DevicePointer to, DevicePointer from, int64_t bytes) {
    if (bytes == 0)
      return Status::ok();
    AUTOPAR_RETURN_IF_ERROR(gpu->select());
    auto stream = streams.ofHost();
    if (!stream)
      return stream.status();
    AUTOPAR_RETURN_IF_ERROR(
        gpu->check(calls.memcpyAsync(to, from, size_t(bytes), *stream), "cuMemcpyAsync"));
    return gpu->check(calls.streamSynchronize(*stream), "cuStreamSynchronize");
  }

  // ---- Staging

  Result<void *> allocate(int64_t bytes) override {
    AUTOPAR_RETURN_IF_ERROR(gpu->select());
    void *address = nullptr;
    DriverError error = calls.memHostAlloc(&address, size_t(bytes), kHostAllocPortable);
    if (error == DriverError::OutOfMemory)
      return Status(StatusCode::NoDevice, gpu->text() + ": " + std::to_string(bytes) +
                                              " bytes of pinned host memory are not to be had");
    AUTOPAR_RETURN_IF_ERROR(gpu->check(error, "cuMemHostAlloc"));
    hostMemory.push_back(address);
    return address;
  }
  Result<Token> toHost(void *host, const void *device, int64_t bytes) override {
    return startCopy(Queue::CopyOut, DevicePointer(uintptr_t(host)),
                     DevicePointer(uintptr_t(device)), bytes);
  }
  Result<Token> toDevice(void *device, const void *host, int64_t bytes) override {
    return startCopy(Queue::CopyIn, DevicePointer(uintptr_t(device)),
                     DevicePointer(uintptr_t(host)), bytes);
  }
  Result<Token> startCopy(Queue queue, DevicePointer to, DevicePointer from, int64_t bytes) {
    AUTOPAR_RETURN_IF_ERROR(gpu->select());
    auto stream = streams.of(queue);
    if (!stream)
      return stream.status();
    AUTOPAR_RETURN_IF_ERROR(
        gpu->check(calls.memcpyAsync(to, from, size_t(bytes), *stream), "cuMemcpyAsync"));
    return streams.record(*stream);
  }

  // ---- What instructions need before the first step

  Status create(const Instruction &instruction) {
    if (auto *p = std::get_if<Launch>(&instruction.payload))
      return createLaunch(*p);
    if (auto *p = std::get_if<Matmul>(&instruction.payload))
      return createProduct(*p, instruction.queue);
    if (auto *p = std::get_if<Convolution>(&instruction.payload))
      return createConvolution(*p, instruction.queue);
    if (auto *p = std::get_if<Attention>(&instruction.payload))
      return createAttention(*p, instruction.queue);
    if (std::holds_alternative<GroupedProduct>(instruction.payload))
      return refuse("grouped products");
    if (std::holds_alternative<Pack>(instruction.payload))
      return refuse("packed weights");
    if (std::holds_alternative<Reorder>(instruction.payload))
      return refuse("blocked activation layouts");
    return Status::ok();
  }

  Status refuse(const std::string &what) const {
    return Status::mismatch(gpu->text() + ": the CUDA device has no " + what +
                            "; compile the model for this device");
  }

  Status createLaunch(const Launch &p) {
    if (!kernels)
      return Status::internal("kernel " + program->kernels[size_t(p.kernel)] + " was not loaded");
    if (p.sharedBytes > gpu->maxSharedBytes())
      return Status::mismatch(
          gpu->text() + ": a block of kernel " + program->kernels[size_t(p.kernel)] + " wants " +
          std::to_string(p.sharedBytes) + " bytes of shared memory, this GPU has " +
          std::to_string(gpu->maxSharedBytes()));
    return kernels->allowShared(p.kernel, p.sharedBytes)
        .at("kernel " + program->kernels[size_t(p.kernel)]);
  }

  Status createProduct(const Matmul &p, Queue queue) {
    if (!blas) {
      auto found = gpu->all().blasLt();
      if (!found)
        return found.status().at(gpu->text());
      blas = *found;
      AUTOPAR_RETURN_IF_ERROR(
          checkBlas(**blas, (*blas)->create(&blasHandle), gpu->text() + ": cublasLtCreate"));
    }
    ProductAlignment alignment;
    alignment.a = alignmentOfAllSlots(p.a), alignment.b = alignmentOfAllSlots(p.b);
    alignment.c = alignmentOfAllSlots(p.c);
    if (p.bias >= 0)
      alignment.bias = alignmentOfAllSlots(p.bias), alignment.biasAt = at(p.bias, 0);
    if (p.residual >= 0)
      alignment.residual = alignmentOfAllSlots(p.residual),
      alignment.gradientAt = at(p.residual, 0);
    if (p.aux >= 0)
      alignment.aux = alignmentOfAllSlots(p.aux), alignment.auxAt = at(p.aux, 0);
    auto product = BlasProduct::create(**blas, blasHandle, p.geometry, alignment,
                                       std::max(plannedScratch(p.scratch), kMostWorkspace));
    if (!product)
      return product.status().at(gpu->text());
    AUTOPAR_RETURN_IF_ERROR(wantWorkspace((*product)->workspaceBytes(), p.scratch, queue));
    if (int64_t count = (*product)->onesCount(); count > 0) {
      Workspace &own = ones[int(p.geometry.biasType)];
      own.bytes = std::max(own.bytes, count * byteSize(p.geometry.biasType));
    }
    products.emplace(&p, product.take());
    return Status::ok();
  }

  Status createAttention(const Attention &p, Queue queue) {
    for (const std::vector<int32_t> *buffers : {&p.inputs, &p.outputs})
      for (int32_t buffer : *buffers)
        AUTOPAR_RETURN_IF_ERROR(checkAlignment(buffer, "attention", "--attention products"));
    auto attention = plans->attention(p.geometryOf(rankValues));
    if (!attention)
      return attention.status();
    attentions.emplace(&p, *attention);
    return wantWorkspace((*attention)->workspaceBytes(), p.scratch, queue);
  }

  Status createConvolution(const Convolution &p, Queue queue) {
    for (int32_t buffer : {p.x, p.w, p.y})
      AUTOPAR_RETURN_IF_ERROR(checkAlignment(buffer, "a convolution", "--convolutions kernels"));
    auto convolution = plans->convolution(p.geometry, plannedScratch(p.scratch));
    if (!convolution)
      return convolution.status();
    convolutions.emplace(&p, *convolution);
    return wantWorkspace((*convolution)->workspaceBytes(), p.scratch, queue);
  }

  Status checkAlignment(int32_t buffer, const std::string &what, const std::string &without) const {
    if (alignmentOfAllSlots(buffer) >= 16)
      return Status::ok();
    return Status::mismatch(
        gpu->text() + ": buffer " + program->buffers[size_t(buffer)].name + " of " + what +
        " does not start at a multiple of 16 bytes; compile the model with " + without);
  }

  int64_t plannedScratch(int32_t scratch) const {
    return scratch < 0 ? 0 : program->buffers[size_t(scratch)].bytes;
  }
  Status wantWorkspace(int64_t bytes, int32_t scratch, Queue queue) {
    Workspace &own = workspaces[size_t(queue)];
    if (bytes > plannedScratch(scratch))
      own.bytes = std::max(own.bytes, bytes);
    else if (bytes > 0 && alignmentOfAllSlots(scratch) < kCudaScratchAlignment)
      return Status::mismatch(gpu->text() + ": buffer " + program->buffers[size_t(scratch)].name +
                              ", a library's workspace, does not start at a multiple of " +
                              std::to_string(kCudaScratchAlignment) +
                              " bytes; compile the model with this version");
    return Status::ok();
  }
  DevicePointer workspaceOf(int64_t bytes, int32_t scratch, Queue queue, int32_t slot) const {
    return bytes == 0                         ? 0
           : bytes <= plannedScratch(scratch) ? at(scratch, slot)
                                              : workspaces[size_t(queue)].address;
  }

  int64_t alignmentOfAllSlots(int32_t buffer) const {
    const Buffer &b = program->buffers[size_t(buffer)];
    return std::min(alignmentOf(at(buffer, 0)),
                    b.slots > 1 ? alignmentOf(DevicePointer(b.slotStride)) : 256);
  }

  Status allocateWorkspaces() {
    auto allocateUnplanned = [&](Workspace &workspace) -> Status {
      if (workspace.bytes == 0)
        return Status::ok();
      auto address = allocateDevice(workspace.bytes, "the libraries' workspace");
      if (!address)
        return address.status();
      workspace.address = *address;
      unplanned += workspace.bytes;
      return Status::ok();
    };
    for (Workspace &workspace : workspaces)
      AUTOPAR_RETURN_IF_ERROR(allocateUnplanned(workspace));
    for (auto &[type, workspace] : ones) {
      AUTOPAR_RETURN_IF_ERROR(allocateUnplanned(workspace));
      AUTOPAR_RETURN_IF_ERROR(
          copyNow(workspace.address,
                  DevicePointer(uintptr_t(onesOf(DataType(type), workspace.bytes).data())),
                  workspace.bytes));
    }
    return Status::ok();
  }

  static std::vector<uint8_t> onesOf(DataType dtype, int64_t bytes) {
    uint64_t one = dtype == DataType::F16    ? 0x3c00
                   : dtype == DataType::BF16 ? 0x3f80
                   : dtype == DataType::F32  ? 0x3f800000
                                             : 0x3ff0000000000000;
    std::vector<uint8_t> all(static_cast<size_t>(bytes));
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = uint8_t(one >> (8 * (i % size_t(byteSize(dtype)))));
    return all;
  }

  // ---- Running

  Status run(const Launch &p, Queue, int32_t slot, Stream stream) {
    if (p.extent == 0 || p.blocks == 0)
      return Status::ok();
    addresses.clear();
    arguments.clear();
    for (int32_t buffer : p.args)
      addresses.push_back(at(buffer, slot));
    for (DevicePointer &value : addresses)
      arguments.push_back(&value);
    return gpu->check(calls.launchKernel(kernels->function(p.kernel), unsigned(p.blocks), 1, 1,
                                         unsigned(p.threads), 1, 1, unsigned(p.sharedBytes), stream,
                                         arguments.data(), nullptr),
                      "cuLaunchKernel of " + program->kernels[size_t(p.kernel)]);
  }
  Status run(const Matmul &p, Queue queue, int32_t slot, Stream stream) {
    const BlasProduct &product = *products.at(&p);
    auto atOrNull = [&](int32_t buffer) {
      return buffer < 0 ? DevicePointer{0} : at(buffer, slot);
    };
    BlasProduct::Operands operands;
    operands.a = at(p.a, slot), operands.b = at(p.b, slot), operands.c = at(p.c, slot);
    operands.bias = atOrNull(p.bias), operands.residual = atOrNull(p.residual);
    operands.aux = atOrNull(p.aux);
    operands.workspace = workspaceOf(product.workspaceBytes(), p.scratch, queue, slot);
    if (product.onesCount() > 0)
      operands.ones = ones.at(int(p.geometry.biasType)).address;
    return product.run(operands, stream).at(gpu->text());
  }
  Status run(const Attention &p, Queue queue, int32_t slot, Stream stream) {
    const CudnnAttention &attention = *attentions.at(&p);
    std::vector<DevicePointer> inputs, outputs;
    for (int32_t buffer : p.inputs)
      inputs.push_back(at(buffer, slot));
    for (int32_t buffer : p.outputs)
      outputs.push_back(at(buffer, slot));
    DevicePointer workspace = workspaceOf(attention.workspaceBytes(), p.scratch, queue, slot);
    return attention.run(inputs, outputs, workspace, stream).at(gpu->text());
  }
  Status run(const Convolution &p, Queue queue, int32_t slot, Stream stream) {
    const CudnnConvolution &convolution = *convolutions.at(&p);
    DevicePointer workspace = workspaceOf(convolution.workspaceBytes(), p.scratch, queue, slot);
    return convolution.run(at(p.x, slot), at(p.w, slot), at(p.y, slot), workspace, stream)
        .at(gpu->text());
  }
  Status run(const Copy &p, Queue, int32_t slot, Stream stream) {
    if (p.bytes == 0)
      return Status::ok();
    return gpu->check(calls.memcpyAsync(at(p.dst, slot) + DevicePointer(p.dstOffset),
                                        at(p.src, slot) + DevicePointer(p.srcOffset),
                                        size_t(p.bytes), stream),
                      "cuMemcpyAsync");
  }
  template <typename T>
  Status run(const T &, Queue, int32_t, Stream) {
    return Status::internal("this kind of instruction is not the device's");
  }

  std::vector<DevicePointer> addresses;
  std::vector<void *> arguments;
};

} // namespace
} // namespace cuda

Result<std::unique_ptr<Device>> createCudaDevice(const CudaOptions &options) {
  auto target = CudaTarget::parse(options.target.features);
  if (!target)
    return target.status();
  auto libraries = cuda::CudaLibraries::open(options.libraries);
  if (!libraries)
    return libraries.status();
  auto gpu = cuda::Gpu::open(*libraries, options.localRank % (*libraries)->deviceCount());
  if (!gpu)
    return gpu.status();
  if ((*gpu)->capability() < target->leastChip)
    return Status::mismatch(
        (*gpu)->text() + " is of compute capability " + std::to_string((*gpu)->capability() / 10) +
        "." + std::to_string((*gpu)->capability() % 10) + ", the artifact's kernels need " +
        std::to_string(target->leastChip / 10) + "." + std::to_string(target->leastChip % 10) +
        "; compile the model for this GPU");
  return std::unique_ptr<Device>(std::make_unique<cuda::CudaDevice>(gpu.take(), options, *target));
}

Result<int32_t> countCudaDevices(const std::string &libraries) {
  auto opened = cuda::CudaLibraries::open(libraries);
  if (!opened)
    return opened.status();
  return int32_t((*opened)->deviceCount());
}

} // namespace autopar::runtime
