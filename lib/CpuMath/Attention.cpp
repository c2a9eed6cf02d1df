// SPDX-License-Identifier: Apache-2.0
// Attention on the threads of the CPU device: each takes the next block until none is left; a block
// is computed by one thread, in one order.
#include "autopar/CpuMath/Attention.h"

#include "AttentionBackward.h"
#include "AttentionForward.h"
#include "autopar/CpuMath/OpenMP.h"

#include <atomic>

namespace autopar::cpumath {
namespace {

using namespace attention;

#define AUTOPAR_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")))
#define AUTOPAR_AVX2 __attribute__((target("avx2,fma,f16c")))

/// A call shared out among threads.
template <typename Operands, typename Blocks>
struct Shared {
  const AttentionShape &shape;
  const Operands &operands;
  const Blocks &blocks;
  float *scratch;
  int lanes;
  std::atomic<int64_t> next = 0;

  template <typename Worker>
  AUTOPAR_INLINE void runWith() {
    Worker worker(shape, operands, blocks, scratch + omp_get_thread_num() * blocks.floats());
    int64_t tasks = blocks.tasks(shape);
    for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
      worker.run(task);
  }
};

using SharedForward = Shared<AttentionForward, ForwardBlocks>;
using SharedBackward = Shared<AttentionBackward, BackwardBlocks>;

void forwardPlain(SharedForward &shared) { shared.runWith<ForwardWorker<Wide<4>>>(); }
AUTOPAR_AVX2 void forwardAvx2(SharedForward &shared) { shared.runWith<ForwardWorker<Wide<8>>>(); }
AUTOPAR_AVX512 void forwardAvx512(SharedForward &shared) {
  shared.runWith<ForwardWorker<Wide<16>>>();
}
AUTOPAR_PAIRS void forwardPairs(SharedForward &shared) { shared.runWith<ForwardWorker<Paired>>(); }
void backwardPlain(SharedBackward &shared) { shared.runWith<BackwardWorker<Wide<4>>>(); }
AUTOPAR_AVX2 void backwardAvx2(SharedBackward &shared) {
  shared.runWith<BackwardWorker<Wide<8>>>();
}
AUTOPAR_AVX512 void backwardAvx512(SharedBackward &shared) {
  shared.runWith<BackwardWorker<Wide<16>>>();
}
AUTOPAR_PAIRS void backwardPairs(SharedBackward &shared) {
  shared.runWith<BackwardWorker<Paired>>();
}

template <typename Call>
using Run = void (*)(Call &);

/// Of four ways to run a call, the one for its lanes.
template <typename Call>
void runWide(Call &call, Run<Call> pairs, Run<Call> avx512, Run<Call> avx2, Run<Call> plain) {
  Run<Call> run = call.lanes == 32   ? pairs
                  : call.lanes == 16 ? avx512
                  : call.lanes == 8  ? avx2
                                     : plain;
  run(call);
}
void run(SharedForward &call) {
  runWide<SharedForward>(call, forwardPairs, forwardAvx512, forwardAvx2, forwardPlain);
}
void run(SharedBackward &call) {
  runWide<SharedBackward>(call, backwardPairs, backwardAvx512, backwardAvx2, backwardPlain);
}

template <typename Call>
void share(Call &call, int threads) {
  int64_t useful = std::min<int64_t>(threads, call.blocks.tasks(call.shape));
  if (useful > 1)
    GOMP_parallel([](void *data) { run(*static_cast<Call *>(data)); }, &call, unsigned(useful), 0);
  else if (useful == 1)
    run(call);
}

Status refuse(const std::string &why) { return Status::mismatch("attention: " + why); }

} // namespace

Status verifyAttention(const AttentionShape &s) {
  auto isFloat = [](DataType type) {
    return type == DataType::F32 || type == DataType::BF16 || type == DataType::F16;
  };
  if (!isFloat(s.type))
    return refuse("of " + std::string(name(s.type)) + "; known are f32, bf16 and f16");
  if (s.hasBias && s.biasType != DataType::F32 && s.biasType != s.type)
    return refuse("a bias of " + std::string(name(s.biasType)) + " for " +
                  std::string(name(s.type)));
  for (int64_t extent : {s.batch, s.heads, s.queries, s.keys, s.depth, s.valueDepth})
    if (extent < 0)
      return refuse("a negative extent");
  if (s.hiddenKeys < 0 || s.hiddenKeys > s.keys || (s.hiddenKeys > 0 && !s.isCausal))
    return refuse(std::to_string(s.hiddenKeys) + " hidden of " + std::to_string(s.keys) + " keys");
  if (s.window < 0 || (s.window > 0 && !s.isCausal))
    return refuse("a window of " + std::to_string(s.window) + " keys" +
                  (s.isCausal ? "" : " without a causal mask"));
  if (s.groups < 1 || s.heads % s.groups != 0)
    return refuse(std::to_string(s.heads) + " heads over " + std::to_string(s.groups) +
                  " heads of keys");
  return Status::ok();
}

int attentionLanes(DataType type) {
  static const int floats =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
          ? 16
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("f16c")
          ? 8
          : 4;
  static const bool hasPairs = floats == 16 && __builtin_cpu_supports("avx512bf16");
  return type == DataType::BF16 && hasPairs ? 32 : floats;
}

int64_t attentionScratchBytes(const AttentionShape &shape, int threads) {
  ForwardBlocks blocks(shape, threads);
  return blocks.floats() * 4 * std::min<int64_t>(threads, blocks.tasks(shape));
}

int64_t attentionBackwardScratchBytes(const AttentionShape &shape, int threads) {
  BackwardBlocks blocks(shape, threads);
  return blocks.floats() * 4 * std::min<int64_t>(threads, blocks.tasks(shape));
}

void attentionForward(const AttentionShape &shape, const AttentionForward &operands, void *scratch,
                      int threads, int lanes) {
  ForwardBlocks blocks(shape, threads);
  SharedForward call{shape, operands, blocks, static_cast<float *>(scratch),
                     lanes ? lanes : attentionLanes(shape.type)};
  share(call, threads);
}

void attentionBackward(const AttentionShape &shape, const AttentionBackward &operands,
                       void *scratch, int threads, int lanes) {
  BackwardBlocks blocks(shape, threads);
  SharedBackward call{shape, operands, blocks, static_cast<float *>(scratch),
                      lanes ? lanes : attentionLanes(shape.type)};
  share(call, threads);
}

} // namespace autopar::cpumath
