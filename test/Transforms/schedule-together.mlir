// RUN: autopar-opt %s --autopar-schedule="cluster=presets:h100x4 target=cuda" | FileCheck %s
// RUN: autopar-opt %s --autopar-schedule | FileCheck %s --check-prefix=UNKNOWN
// RUN: autopar-opt %s --autopar-schedule="cluster=presets:cpux4" | FileCheck %s --check-prefix=UNKNOWN
// RUN: not autopar-opt %s --autopar-schedule="cluster=presets:none" 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: autopar-opt %s --autopar-evaluate-step="cluster=presets:h100x4 target=cuda" | FileCheck %s --check-prefix=TIME
// RUN: sed s/overlapped-1f1b/eager-1f1b/ %s | autopar-opt --autopar-evaluate-step="cluster=presets:h100x4 target=cuda" | FileCheck %s --check-prefix=EAGER

// The forward row of micro-batch 1 and the backward row of 0 run together on the second mesh: while one waits for its sum, the
// other computes. Sums begin in the order in which they are made, on all ranks.

// CHECK-LABEL: func.func @main.1
// CHECK: autopar.all_reduce {{.*}} {autopar.id = "sum@0"}
// CHECK: {autopar.id = "loss@0"}
// CHECK: {autopar.id = "g@1"}
// CHECK-NEXT: autopar.all_reduce {{.*}} {autopar.id = "sum@1"}
// CHECK-NEXT: {autopar.id = "d/vjp@0"}
// CHECK-NEXT: autopar.all_reduce {{.*}} {autopar.id = "dsum/vjp@0"}
// CHECK-NEXT: {autopar.id = "loss@1"}
// CHECK-NEXT: {autopar.id = "b/vjp@0"}
// CHECK-NEXT: autopar.send {{.*}} {autopar.id = "back@0"}

// Where nobody knows times, and where devices that exchange something compute nothing meanwhile, one row stands behind the other.
// UNKNOWN-LABEL: func.func @main.1
// UNKNOWN: {autopar.id = "g@1"}
// UNKNOWN-NEXT: autopar.all_reduce {{.*}} {autopar.id = "sum@1"}
// UNKNOWN-NEXT: {autopar.id = "loss@1"}
// UNKNOWN-NEXT: {autopar.id = "d/vjp@0"}
// UNKNOWN-NEXT: autopar.all_reduce {{.*}} {autopar.id = "dsum/vjp@0"}

// ERROR: error: {{.*}}none
// Of twelve rows of the second mesh all wait for a sum; the five pairs save what the other row computes meanwhile, and what a
// kernel of one row fills of what another one waits.
// TIME: autopar.row_waits_us = 176.9{{[0-9]*}}
// TIME-SAME: autopar.step_us = 420.0{{[0-9]*}}
// EAGER: autopar.row_waits_us = 256.0{{[0-9]*}}
// EAGER-SAME: autopar.step_us = 513.3{{[0-9]*}}
module {
  autopar.mesh @mesh.0 ["t" = 2] devices [0, 1]
  autopar.mesh @mesh.1 ["t" = 2] devices [2, 3]
  func.func @main(%all: tensor<6x1048576xf32>, %w: tensor<1048576xf32> {autopar.name = "w", autopar.donated, autopar.stage = 0 : i64})
      -> (tensor<1048576xf32> {autopar.name = "w"}) attributes {autopar.schedule = "overlapped-1f1b", autopar.stage_meshes = 2 : i64} {
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<6x1048576xf32> -> tensor<1048576xf32>
    %f = autopar.binary mul %x, %w {autopar.id = "f"} : tensor<1048576xf32>
    %there = autopar.transfer %f to 1 {autopar.id = "there"} : tensor<1048576xf32>
    %g = autopar.unary exp %there {autopar.id = "g"} : tensor<1048576xf32>
    %sum = autopar.all_reduce sum %g over @mesh.1 ["t"] {autopar.id = "sum"} : tensor<1048576xf32>
    %loss = autopar.unary sqrt %sum {autopar.id = "loss"} : tensor<1048576xf32>
    %d = autopar.binary mul %loss, %g {autopar.id = "d/vjp"} : tensor<1048576xf32>
    %dsum = autopar.all_reduce sum %d over @mesh.1 ["t"] {autopar.id = "dsum/vjp"} : tensor<1048576xf32>
    %back = autopar.binary mul %dsum, %loss {autopar.id = "b/vjp"} : tensor<1048576xf32>
    %home = autopar.transfer %back to 0 {autopar.id = "back"} : tensor<1048576xf32>
    %before = autopar.carried sum 0 : tensor<1048576xf32>
    %part = autopar.binary mul %home, %x {autopar.id = "w/vjp"} : tensor<1048576xf32>
    %added = autopar.binary add %before, %part {autopar.id = "w/sum"} : tensor<1048576xf32>
    %total = autopar.carry 0 %added : tensor<1048576xf32>
    %new = autopar.binary sub %w, %total {autopar.id = "w/new"} : tensor<1048576xf32>
    return %new : tensor<1048576xf32>
  }
}
