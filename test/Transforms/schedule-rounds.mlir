// RUN: autopar-opt %s --split-input-file --autopar-schedule=rounds=always | FileCheck %s
// RUN: autopar-opt %s --split-input-file --autopar-schedule=rounds=never | FileCheck %s --check-prefix=NEVER
// RUN: not autopar-opt %s --split-input-file --autopar-schedule=rounds=sometimes 2>&1 | FileCheck %s --check-prefix=WRONG

// NEVER-NOT: autopar.round
// WRONG: error: rounds: expected auto, always or never, got "sometimes"

// Two micro-batches, rounds of one each, and one behind them. The sum is handed on, parts of inputs
// and outputs move on.
// CHECK-LABEL: func.func @main
// CHECK: autopar.slice %arg0 starts [1, 0]
// CHECK: %[[BEFORE:.*]] = autopar.binary add {{.*}} {autopar.id = "s@1"}
// CHECK: %[[PARTS:.*]] = autopar.insert_part {{.*}} at 1 {autopar.id = "ys@1"}
// CHECK: %[[FOUND:.*]]:2 = autopar.round_begin 5 step 1 from %[[BEFORE]], %[[PARTS]]
// CHECK-NEXT: %[[X:.*]] = autopar.round_slice %arg0 at 2 {autopar.id = "x@2"} : tensor<8x4xf32> -> tensor<1x4xf32>
// CHECK: %[[S:.*]] = autopar.binary add %{{.*}}, %[[FOUND]]#0 {autopar.id = "s@2"}
// CHECK: %[[Y:.*]] = autopar.insert_part %{{.*}} into %[[FOUND]]#1 : tensor<8x4xf32> at 2 moves
// CHECK-NEXT: %[[LAST:.*]]:2 = autopar.round_end %[[S]], %[[Y]]
// CHECK: autopar.slice %arg0 starts [7, 0]
// CHECK: %[[SUM:.*]] = autopar.binary add %{{.*}}, %[[LAST]]#0 {autopar.id = "s@7"}
// CHECK: %[[ALL:.*]] = autopar.insert_part %{{.*}} into %[[LAST]]#1 : tensor<8x4xf32> at 7 {autopar.id = "ys@7"}
// CHECK: return %[[SUM]], %[[ALL]]
module {
  func.func @main(%all: tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<8x4xf32> -> tensor<4xf32>
    %before = autopar.carried sum 0 : tensor<4xf32>
    %y = autopar.unary neg %x {autopar.id = "y"} : tensor<4xf32>
    %sum = autopar.binary add %y, %before {autopar.id = "s"} : tensor<4xf32>
    %total = autopar.carry 0 %sum : tensor<4xf32>
    %ys = autopar.stack_micro_batches %y {autopar.id = "ys"} : tensor<4xf32> -> tensor<8x4xf32>
    return %total, %ys : tensor<4xf32>, tensor<8x4xf32>
  }
}

// -----

// Rounds of each mesh have as many micro-batches as it has in flight: two on the first, one on the
// second. What is received a row early is of the next round.
// CHECK-LABEL: func.func @main.0
// CHECK: autopar.round_begin {{[0-9]+}} step 2 from
// CHECK: autopar.round_end
// CHECK-LABEL: func.func @main.1
// CHECK: autopar.round_begin {{[0-9]+}} step 1 from
// CHECK: autopar.receive from 0
// CHECK: autopar.round_end
module {
  func.func @main(%all: tensor<12x4xf32>, %w: tensor<4xf32> {autopar.name = "w", autopar.donated, autopar.stage = 0 : i64})
      -> (tensor<4xf32> {autopar.name = "w"}) attributes {autopar.schedule = "1f1b", autopar.stage_meshes = 2 : i64} {
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<12x4xf32> -> tensor<4xf32>
    %f = autopar.binary mul %x, %w {autopar.id = "f"} : tensor<4xf32>
    %there = autopar.transfer %f to 1 {autopar.id = "f/to.1"} : tensor<4xf32>
    %g = autopar.binary add %there, %there {autopar.id = "f/vjp.0"} : tensor<4xf32>
    %back = autopar.transfer %g to 0 {autopar.id = "f/vjp.0/to.0"} : tensor<4xf32>
    %before = autopar.carried sum 0 : tensor<4xf32>
    %dw = autopar.binary mul %back, %x {autopar.id = "w/vjp"} : tensor<4xf32>
    %sum = autopar.binary add %dw, %before {autopar.id = "w/vjp/sum"} : tensor<4xf32>
    %total = autopar.carry 0 %sum : tensor<4xf32>
    %new = autopar.binary sub %w, %total {autopar.id = "w/new"} : tensor<4xf32>
    return %new : tensor<4xf32>
  }
}
