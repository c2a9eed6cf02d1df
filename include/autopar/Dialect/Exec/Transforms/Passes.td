// SPDX-License-Identifier: Apache-2.0
// Passes on programs of the exec dialect.

#ifndef AUTOPAR_EXEC_TRANSFORMS_PASSES_TD
#define AUTOPAR_EXEC_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanMemoryPass : Pass<"autopar-plan-memory", "mlir::exec::ProgramOp"> {
  let summary = "give every buffer its place in the arena";
  let description = [{
    A buffer lives from its first to its last instruction, `load` before `step`; parameters, constants and whatever
    `load` leaves for `step` live on, inputs and outputs live through the whole step. What lives on lies below all else, or,
    where the peak is lower so, what `load` makes lies anywhere. Of the others large buffers are
    placed first, each at the lowest offset (a multiple of 64; of `alignment` for buffers that are no smaller) that is free for as long as it lives.
    The arena's size is the exact peak. With a limit, a plan over it is refused, unless the caller only asks for its size. Who gets bytes that a message still reads waits
    for it, so those are left alone for about as long as the message takes on a slow link (small ones until the end of the
    step), or at least on a fast one, where the arena grows by no more than a 32nd and stays within the limit.

    ```
    %0 = exec.buffer "h" device bytes 2048 at 4096 : tensor<8x64xf32>
    ```
  }];
  let options = [
    Option<"limit", "limit", "int64_t", "0", "bytes of device memory that the plan may use; 0 = any">,
    Option<"hostLimit", "host-limit", "int64_t", "0", "bytes of host memory that the plan may use; 0 = any">,
    Option<"refuse", "refuse", "bool", "true", "whether a plan over the limit is an error">,
    Option<"alignment", "alignment", "int64_t", "64", "what buffers of as many bytes and more start at multiples of">,
  ];
}

def FillWaitsPass : Pass<"autopar-fill-waits", "mlir::exec::ProgramOp"> {
  let summary = "let kernels run that nobody waits for while another waits for a collective";
  let description = [{
    Follows the queues of an entry through the times that its instructions have (`us`). Where a kernel would wait for a
    collective, one that stands before what the collective reads, and that nobody needs yet, moves in front of it: the one that fills the wait best.
    The collective starts earlier by as much. Operands that live longer for it take no more than a 32nd of the limit.

    ```
    exec.matmul %x, %dy -> %dw {us = 50.0}
    exec.matmul %dy, %w -> %dx {us = 50.0}
    exec.collective all_reduce %dx -> %sum group 0 count 4 : f32 queue communication {us = 40.0}
    exec.launch @k(%sum) -> (%y) extent 4 {us = 10.0}
    ```
    becomes
    ```
    exec.matmul %dy, %w -> %dx {us = 50.0}
    exec.collective all_reduce %dx -> %sum group 0 count 4 : f32 queue communication {us = 40.0}
    exec.matmul %x, %dy -> %dw {us = 50.0}
    exec.launch @k(%sum) -> (%y) extent 4 {us = 10.0}
    ```
  }];
  let options = [
    Option<"limit", "limit", "int64_t", "0", "bytes of device memory that the plan may use; 0 = any">,
  ];
}

def OrderPartsLatePass : Pass<"autopar-order-parts-late", "mlir::exec::ProgramOp"> {
  let summary = "put a collective's parts in order where somebody reads them";
  let description = [{
    Where parts of a dimension that is not the outermost are exchanged, a kernel behind the collective puts them in
    order. Kernels run in order, so all behind it would wait for the collective: it moves down to in front of the first
    instruction that reads what it writes.

    ```
    exec.collective all_gather %x -> %parts group 0 count 4 : f32 queue communication
    exec.launch @order(%parts) -> (%y) extent 4
    exec.launch @other(%z) -> (%u) extent 4
    exec.launch @reads(%y) -> (%v) extent 4
    ```
    becomes
    ```
    exec.collective all_gather %x -> %parts group 0 count 4 : f32 queue communication
    exec.launch @other(%z) -> (%u) extent 4
    exec.launch @order(%parts) -> (%y) extent 4
    exec.launch @reads(%y) -> (%v) extent 4
    ```
  }];
}

def MarkInstructionsPass : Pass<"autopar-mark-instructions", "mlir::exec::ProgramOp"> {
  let summary = "mark what an evaluation runs, and what changes the state";
  let description = [{
    `commits`: the instruction writes the buffer of a state. It waits for the metrics that guard, and the runtime
    leaves it out where one of them is not finite. An instruction that commits before the guards are computed moves
    behind them where nothing in between needs its result; where it cannot move, it is not marked.
    `evaluated`: a metric that is evaluated depends on it. The runtime evaluates by running these alone, with the same memory
    plan: leaving out instructions only means that fewer bytes are overwritten. Where that would write a state, nothing
    is marked. Runs before memory is planned, where a buffer holds one value.

    ```
    exec.launch @update(%w, %g) -> (%w) extent 4 {commits}
    ```
  }];
}

def StageHostBuffersPass : Pass<"autopar-stage-host-buffers", "mlir::exec::ProgramOp"> {
  let summary = "bring buffers in host memory to the device where instructions work on them";
  let description = [{
    Instructions work on device memory. Those that read or write buffers in host memory form groups in program order, readers and writers apart, each of
    at most 128 MiB and a 32nd of all bytes on the host (or one instruction). A group gets copies of its buffers on the device: fetched, on the
    queue `copy_in`, in front of the second group before it, and stored, on the queue `copy_out`, behind its last instruction. So there are about four groups on the device at a time: two that
    come, one that is worked on, one that leaves.

    ```
    exec.copy %host at 0 -> %fetched at 0 bytes 4096 queue copy_in
    exec.launch @update(%w, %fetched) -> (%w, %fetched) extent 4
    exec.copy %fetched at 0 -> %host at 0 bytes 4096 queue copy_out
    ```
  }];
}

def OrderQueuesPass : Pass<"autopar-order-queues", "mlir::exec::ProgramOp"> {
  let summary = "write down which instructions wait for other queues";
  let description = [{
    Instructions of one queue run in order. Where two instructions on different queues touch the same bytes
    and one of them writes (true, anti and output dependencies, reuse of memory included), the later
    one waits for the earlier. Waits that follow from others are left out. Instructions that commit also wait for
    the metrics that guard them.

    ```
    exec.collective all_reduce %0 -> %1 group 0 count 4 : f32 queue communication after [0]
    ```
  }];
}

#endif
