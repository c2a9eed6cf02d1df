// SPDX-License-Identifier: Apache-2.0
// The passes that find a plan and apply it to operations of the autopar dialect, one file per pass.

#ifndef AUTOPAR_TRANSFORMS_PASSES_TD
#define AUTOPAR_TRANSFORMS_PASSES_TD

include "autopar/Transforms/FormGroupsPasses.td"
include "autopar/Transforms/PreparePasses.td"
include "autopar/Transforms/ProductPasses.td"
include "mlir/Pass/PassBase.td"

def HoldAcrossPhasesPass : Pass<"autopar-hold-across-phases", "mlir::func::FuncOp"> {
  let summary = "let values that cross the phases of a training step change their sharding there";
  let description = [{
    Phases are forward, and what `autopar.phase` names (backward, update). A parameter gets an
    `autopar.hold` per phase that reads it, before its first reader; a value that waits for the update
    gets one behind its last reader before that, and one before its first reader in the update. The search
    then chooses between keeping a parameter
    gathered and gathering it again in backward, and between reducing a gradient at once and late.
    A function without phases stays as it is.

    ```mlir
    %1 = autopar.dot_general %x, %w ...
    %2 = autopar.dot_general %g, %w ... {autopar.phase = "backward"}
    ```
    becomes
    ```mlir
    %0 = autopar.hold %w {autopar.id = "w/forward"}
    %1 = autopar.dot_general %x, %0 ...
    %2 = autopar.hold %w {autopar.id = "w/backward"}
    %3 = autopar.dot_general %g, %2 ... {autopar.phase = "backward"}
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def SplitMicroBatchesPass : Pass<"autopar-split-micro-batches", "mlir::ModuleOp"> {
  let summary = "compute the batch in parts, one after the other";
  let description = [{
    Shards the first dimension of the inputs over time, as a mesh axis would, by the sharding rules of the operations. Inputs and
    results of the batch get a dimension of micro-batches in front; what is partial over time is
    accumulated. What micro-batches need to know of the whole batch is computed before them if it
    depends on inputs alone; an operation that couples the samples otherwise is refused.

    ```mlir
    func.func @main(%x: tensor<8x16xf32>, %g: tensor<8x4xf32>) -> tensor<16x4xf32> {
      %w = autopar.dot_general %x, %g contract [0] x [0] : ...
    ```
    becomes for two micro-batches
    ```mlir
    func.func @main(%x: tensor<2x4x16xf32> {autopar.micro_batches = 2}, ...) -> tensor<16x4xf32> {
      %a = autopar.micro_batch %x : tensor<2x4x16xf32> -> tensor<4x16xf32>
      %b = autopar.micro_batch %g : tensor<2x4x4xf32> -> tensor<4x4xf32>
      %p = autopar.dot_general %a, %b contract [0] x [0] : ...
      %w = autopar.accumulate sum %p : tensor<16x4xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [Option<"count", "count", "int64_t", "1", "number of micro-batches">];
}

def SearchPass : Pass<"autopar-search", "mlir::ModuleOp"> {
  let summary = "choose a sharding for every operation by cost";
  let description = [{
    Reads the sharding rules of `@main`, builds the cost graph for every mesh that the cluster allows
    (at most three axes), lets a search engine choose under the memory limit, and attaches the best
    plan to the module as `autopar.plan` (JSON text). The IR is not changed otherwise. The cluster
    stands in the module (`autopar.cluster`) or in the option; without one it is an error.
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"", "cluster file, or presets:NAME">,
    Option<"engine", "engine", "std::string", "\"auto\"", "search engine, or random for a seeded legal plan">,
    Option<"meshShape", "mesh", "std::string", "\"\"", "only this mesh, e.g. data=4,tensor=2; of each stage: data=1/data=3">,
    Option<"constraints", "constraints", "std::string", "\"\"", "what the plan must hold (autopar/Plan/Constraints.h)">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0", "bytes per device; 0 takes the cluster's">,
    Option<"seed", "seed", "uint64_t", "1", "seed of engines that draw">,
    Option<"planFile", "emit-plan", "std::string", "\"\"", "write the plan to this file too">,
    Option<"computesAgain", "computes-again", "std::string", "\"nothing\"", "what recomputation is taken to free the memory of, while shardings are searched: nothing, cheap or layers">,
    Option<"leastMemory", "least-memory", "bool", "true", "where nothing fits, find the least memory that would do">,
    Option<"waitedShare", "waited-share", "double", "0", "while shardings are searched, the share of gathered parameters and reduced gradients that is waited for; 0: what computing does not hide">,
  ];
}

def AnnotatePass : Pass<"autopar-annotate", "mlir::ModuleOp"> {
  let summary = "write a plan onto the operations that it speaks of";
  let description = [{
    Takes the plan from the option or from the module's `autopar.plan`, declares its mesh, and gives
    each operation its `autopar.strategy` and each argument and result of `@main` its
    `autopar.sharding`; the function remembers what is recomputed (`autopar.recompute`). A plan that
    names unknown operations or axes, or an illegal strategy, is refused.
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"planFile", "plan", "std::string", "\"\"", "plan file; default: the module's autopar.plan">,
  ];
}

def InsertReshardsPass : Pass<"autopar-insert-reshards", "mlir::func::FuncOp"> {
  let summary = "make every disagreement between shardings an operation";
  let description = [{
    Where an operand lies differently from what its user's strategy asks for, an `autopar.reshard` on
    the whole shape is inserted; users that ask for the same share one.
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def PartitionPass : Pass<"autopar-partition", "mlir::func::FuncOp"> {
  let summary = "rewrite a function to the local shapes of one rank";
  let description = [{
    Every operation rewrites itself through its sharding rule interface; `autopar.reshard` becomes
    collectives and local slices. Shards of uneven dimensions are padded at the end; before a
    reduction over such a dimension the padding is replaced by the identity. The result is one program
    for all ranks: what differs is read from `autopar.shard_index`.
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def OptimizeCollectivesPass : Pass<"autopar-optimize-collectives", "mlir::func::FuncOp"> {
  let summary = "replace collectives by cheaper ones that compute the same";
  let description = [{
    An all-reduce of which only this rank's slice is used becomes a reduce-scatter; collectives that
    are computed twice on the same value are shared; what is gathered only to be rounded is rounded
    before; positions and slices that became constant fold.
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def BalanceAttentionPass : Pass<"autopar-balance-attention", "mlir::func::FuncOp"> {
  let summary = "let every rank compute an early and a late part of a triangle's rows";
  let description = [{
    Where the rows of attention under a causal mask are split among n ranks, the last one sees nearly twice the mean of the keys,
    and all wait for it. Instead, each rank sends the halves of its rows to where one of 2n chunks from the front and one from
    the back are together, and gets the results back; gradients of keys and values are added. Done where it pays by the cost
    model on the cluster (the option's, else the module's) and attention is one call on the target.

    ```mlir
    %i = autopar.shard_index @mesh ["c"] : tensor<i64>
    %o, %l = autopar.attention %q, %k, %v scale 1.25e-01 causal shard %i of 2 : (tensor<1x8x512x64xf32>, ...) -> ...
    ```
    becomes
    ```mlir
    %0 = autopar.slice %q ... : tensor<1x8x512x64xf32> -> tensor<1x8x256x64xf32>
    %1 = autopar.slice %q ... : tensor<1x8x512x64xf32> -> tensor<1x8x256x64xf32>
    %2 = autopar.permute %1 from [1, 0] over @mesh ["c"] : tensor<1x8x256x64xf32>
    %3 = autopar.shard_index @mesh ["c"] numbers [0, 2] : tensor<i64>
    %o0, %l0 = autopar.attention %0, %k, %v scale 1.25e-01 causal shard %3 of 4 : ...
    %4 = autopar.shard_index @mesh ["c"] numbers [3, 1] : tensor<i64>
    %o1, %l1 = autopar.attention %2, %k, %v scale 1.25e-01 causal shard %4 of 4 : ...
    %5 = autopar.permute %o1 from [1, 0] over @mesh ["c"] : tensor<1x8x256x64xf32>
    %o = autopar.concat %o0, %5 dim 2 : ...
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"", "cluster file, or presets:NAME">,
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
    Option<"chip", "chip", "int64_t", "80", "compute capability x 10 of the oldest GPU that runs the program">,
  ];
}

def CutStagesPass : Pass<"autopar-cut-stages", "mlir::ModuleOp"> {
  let summary = "put every operation on a pipeline stage";
  let description = [{
    Cuts the forward pass of @main where the slowest stage is fastest and little is sent, and what a stage holds fits its devices, or as a
    plan says. Where devices differ, or cannot be shared equally, so does the number that each stage has (`autopar.stage_devices`). A
    parameter lives where it is read first, or where `autopar.stage` on the argument says; derivatives follow their
    operation, updates their parameter; what depends on inputs alone is on no stage. A value that is read on
    another stage gets an `autopar.transfer`. The function remembers the schedule by name.

    ```mlir
    %h = autopar.dot_general %x, %w1 ...
    %y = autopar.dot_general %h, %w2 ...
    ```
    becomes for two stages
    ```mlir
    %h = autopar.dot_general %x, %w1 ...      // %w1 {autopar.stage = 0}
    %0 = autopar.transfer %h to 1
    %y = autopar.dot_general %0, %w2 ...      // %w2 {autopar.stage = 1}
    ```
  }];
  let options = [
    Option<"stages", "stages", "int64_t", "1", "number of stages">,
    Option<"constraints", "constraints", "std::string", "\"\"", "operations on stages: \"fc1: stage 1\"">,
    Option<"meshes", "meshes", "int64_t", "0", "meshes that the stages take turns on; 0: one each">,
    Option<"meshShape", "mesh", "std::string", "\"\"", "their sizes where they differ: \"data=1/data=3\"">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0", "bytes per device; 0 takes the cluster's">,
    Option<"recomputes", "recomputes", "bool", "false", "what waits for the backward pass may be computed again, and does not count">,
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "name of the schedule">,
    Option<"cluster", "cluster", "std::string", "\"\"", "cluster file, or presets:NAME">,
    Option<"planFile", "plan", "std::string", "\"\"", "take stages and schedule from this plan">,
  ];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def InsertRecomputePass : Pass<"autopar-insert-recompute", "mlir::func::FuncOp"> {
  let summary = "compute values again for the backward pass instead of keeping them";
  let description = [{
    Operations that `autopar.recompute` of the function names, with the group around them, are cloned for
    their readers in the backward pass. A clone stands before its first reader, behind an `autopar.fence` on what it
    reads and on the gradient that the reader waits for; it is called `id/recompute`. Reshapes and other looks at
    a value follow it. Stands behind form-groups, so that both runs are the same kernel.
    What `autopar.offload_activations` names is stored in host memory instead (`autopar.store_on_host`) and fetched
    ahead of its readers (`autopar.fetch_from_host`).

    ```mlir
    func.func @main(...) attributes {autopar.recompute = ["act"]} {
      %a = autopar.unary gelu %h {autopar.id = "act"} : tensor<8xf32>
      ...
      %g = autopar.binary mul %0, %a {autopar.id = "fc/vjp.1"} : tensor<8xf32>
    ```
    becomes
    ```mlir
      %a = autopar.unary gelu %h {autopar.id = "act"} : tensor<8xf32>
      ...
      %1 = autopar.fence %h after %0 {autopar.id = "act/fence"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %2 = autopar.unary gelu %1 {autopar.id = "act/recompute"} : tensor<8xf32>
      %g = autopar.binary mul %0, %2 {autopar.id = "fc/vjp.1"} : tensor<8xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
  ];
}

def EvaluateStepPass : Pass<"autopar-evaluate-step", "mlir::ModuleOp"> {
  let summary = "how long a step of the kernels takes";
  let description = [{
    Stands behind form-groups and insert-recompute, where kernels, library calls and collectives are known and one
    micro-batch is written. Each is counted as its instruction will be; collectives go on beside kernels, rows of the schedule and
    messages follow on the event engine. The module gets `autopar.step_us` and, with stages, `autopar.mesh_us`: what each mesh
    works in the rows. On a cluster of one device that ends a kernel within a microsecond:

    ```mlir
    module attributes {autopar.step_us = 1.0 : f64} {
      func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
        %0 = autopar.group %x : (tensor<8xf32>) -> tensor<8xf32> { ... }
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"", "cluster file, or presets:NAME">,
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0", "bytes per device; 0 takes the cluster's">,
  ];
}

def OverlapPartsPass : Pass<"autopar-overlap-parts", "mlir::ModuleOp"> {
  let summary = "compute in two parts what would wait for its collectives: one computes while the other communicates";
  let description = [{
    Stands behind form-fusion-groups, and leaves training alone. From a collective a dimension of its value (samples, or the positions of
    one) is followed through all operations that compute each part of it on their own; they are written twice, on half of it each, in turn
    between collectives. What needs all of a value gets the parts joined. Kept where the cost model on the cluster (the option's, else the
    module's) says that it `saves` so much; where no cluster is known, or devices move the bytes of messages themselves, nothing changes.

    ```mlir
    %p = autopar.dot_general %x, %v contract [1] x [0] : (tensor<8x4xf32>, ...) -> tensor<8x4xf32>
    %s = autopar.all_reduce sum %p over @mesh ["t"] : tensor<8x4xf32>
    %y = autopar.dot_general %s, %w contract [1] x [0] : ...
    ```
    becomes
    ```mlir
    %x0 = autopar.slice %x starts [0, 0] ...
    %p0 = autopar.dot_general %x0, %v contract [1] x [0] : (tensor<4x4xf32>, ...) -> tensor<4x4xf32>
    %s0 = autopar.all_reduce sum %p0 over @mesh ["t"] : tensor<4x4xf32>
    %x1 = autopar.slice %x starts [4, 0] ...
    %p1 = autopar.dot_general %x1, %v ...
    %s1 = autopar.all_reduce sum %p1 ...
    %y0 = autopar.dot_general %s0, %w ...
    %y1 = autopar.dot_general %s1, %w ...
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"", "cluster file, or presets:NAME">,
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0", "bytes per device; 0 takes the cluster's">,
    Option<"saves", "saves", "double", "0.03", "the share of a step's time that has to be saved">,
  ];
}

def GatherAheadPass : Pass<"autopar-gather-ahead", "mlir::ModuleOp"> {
  let summary = "gather parameters while what stands before their readers computes";
  let description = [{
    Stands behind insert-recompute, where the order of a step is that of its instructions. An all-gather of what only parameters and
    earlier parts of the step make moves up as far as its own time asks, by the cost model on the cluster (the option's, else the
    module's), past what computes and out of the way of other collectives. What is gathered and not yet read takes 1/64 of the
    device's memory, or is one value. Where collectives do not go on beside what computes, and where no cluster is known, nothing moves.
    A kernel that puts shards in order stays before the reader, as a group of its own.

    ```mlir
    %h = autopar.dot_general %x, %v ...
    %w = autopar.all_gather %shard dim 0 over @mesh ["d"] : tensor<1024x4096xbf16> -> tensor<8192x4096xbf16>
    %y = autopar.dot_general %h, %w ...
    ```
    becomes
    ```mlir
    %w = autopar.all_gather %shard dim 0 over @mesh ["d"] : tensor<1024x4096xbf16> -> tensor<8192x4096xbf16>
    %h = autopar.dot_general %x, %v ...
    %y = autopar.dot_general %h, %w ...
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"", "cluster file, or presets:NAME">,
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0", "bytes per device; 0 takes the cluster's">,
  ];
}

def WaitBehindPass : Pass<"autopar-wait-behind", "mlir::ModuleOp"> {
  let summary = "let others go first before what would wait for a collective, and before collectives that nobody waits for";
  let description = [{
    Stands behind gather-ahead. A kernel, or a collective with a kernel before it, that would keep what computes waiting for another
    collective moves down until that is through by the cost model on the cluster (the option's, else the module's), or somebody
    reads it. A collective that nobody waits for moves down behind those that others wait for, until it fits between two of them, its reader
    comes near, or what waits reads more than a 64th of the memory. Where no cluster is known nothing moves.

    ```mlir
    %r = autopar.reduce_scatter sum %g dim 0 over @mesh ["x"] : ...
    %s = autopar.group %r ...
    %y = autopar.dot_general %x, %w ...
    ```
    becomes
    ```mlir
    %r = autopar.reduce_scatter sum %g dim 0 over @mesh ["x"] : ...
    %y = autopar.dot_general %x, %w ...
    %s = autopar.group %r ...
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"", "cluster file, or presets:NAME">,
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0", "bytes per device; 0 takes the cluster's">,
  ];
}

def InterleaveUpdatesPass : Pass<"autopar-interleave-updates", "mlir::ModuleOp"> {
  let summary = "let the updates of several parameters take turns where they wait for collectives";
  let description = [{
    Stands behind wait-behind. Updates of parameters depend on nothing of each other but numbers that all share. Where up to four that
    follow one another have collectives in between, such as Muon's iteration on a matrix that lies in parts, they are written in turn, from
    collective to collective, if all are through earlier so by the cost model on the cluster (the option's, else the module's). Where no
    cluster is known, where collectives do not go on beside what computes, and where the largest operations of each together read and
    make more than 1/64 of the memory, the order stays.

    ```mlir
    %a0 = autopar.dot_general ... {autopar.phase = "update"}
    %a1 = autopar.all_reduce sum %a0 ...
    %a2 = autopar.dot_general %a1 ...
    %b0 = autopar.dot_general ...
    %b1 = autopar.all_reduce sum %b0 ...
    %b2 = autopar.dot_general %b1 ...
    ```
    becomes
    ```mlir
    %a0 = autopar.dot_general ... {autopar.phase = "update"}
    %a1 = autopar.all_reduce sum %a0 ...
    %b0 = autopar.dot_general ...
    %b1 = autopar.all_reduce sum %b0 ...
    %a2 = autopar.dot_general %a1 ...
    %b2 = autopar.dot_general %b1 ...
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"", "cluster file, or presets:NAME">,
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0", "bytes per device; 0 takes the cluster's">,
  ];
}

def SchedulePass : Pass<"autopar-schedule", "mlir::ModuleOp"> {
  let summary = "write out what runs once per micro-batch, in the order of the schedule";
  let description = [{
    Clones the operations of a micro-batch, groups whole, as often as there are micro-batches. Operation ids
    get `@i`. With stages there is a function for each mesh that they take turns on: @main.0, @main.1, ..., in which
    transfers are messages: sent as soon as the value is there, received one row of the schedule before it
    is needed. Rows that run together are written operation by operation, so that one computes while the other waits for
    a collective, by the cost model on the cluster (the option's, else the module's); where none is known one behind the other.
    What many micro-batches repeat in the middle of a step is written once, between autopar.round_begin and
    autopar.round_end: see docs/rationale/Rounds.md.
  }];
  let options = [
    Option<"rounds", "rounds", "std::string", "\"auto\"",
           "whether what micro-batches repeat is written once: auto (where that is at least half of the step), always or never">,
    Option<"cluster", "cluster", "std::string", "\"\"", "cluster file, or presets:NAME">,
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
  ];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def ExpandAccumulatorsPass : Pass<"autopar-expand-accumulators", "mlir::func::FuncOp"> {
  let summary = "write accumulation over micro-batches as additions";
  let description = [{
    `autopar.accumulate` becomes an addition to `autopar.carried`, handed on by `autopar.carry`; short floats
    are summed in f32.
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

#endif
