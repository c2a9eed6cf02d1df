// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "c", "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 1e15, "bf16": 1e15}, "memory_bytes_per_s": 8388608000, "memory_bytes": 1073741824}], "nodes": [{"count": 1, "devices_per_node": 2, "device_type": "gpu"}], "levels": [{"latency_us": 0, "bytes_per_s": 8388608000}]}' > %t.json
// RUN: sed 's/"memory_bytes":/"communicates_while_idle": true, "memory_bytes":/' %t.json > %t.alone.json
// RUN: autopar-opt %s --autopar-schedule="cluster=%t.json" | FileCheck %s
// RUN: autopar-opt %s --autopar-schedule="cluster=%t.alone.json" | FileCheck %s --check-prefix=ALONE
// RUN: autopar-opt %s --autopar-schedule | FileCheck %s --check-prefix=ALONE

// The first micro-batch waits for a collective of its own, "own@0": it goes first, and %w, which is read behind it, is
// gathered while "x@0" computes. The last one has made its part of a sum, "g@1", before other work: the sum over ranks begins
// beside that. What needs the sum stays behind.

// CHECK: func.func @main
// CHECK: autopar.all_reduce {{.*}}"own@0"
// CHECK: autopar.all_gather {{.*}}"w"
// CHECK: autopar.reshape {{.*}}"view"
// CHECK: autopar.unary tanh {{.*}}"x@0"
// CHECK: autopar.group {{.*}}"g@0"
// CHECK: autopar.unary exp {{.*}}"y@0"
// CHECK-NOT: "sum"
// CHECK: %[[TOTAL:.*]] = autopar.group {{.*}}"g@1"
// CHECK: autopar.all_reduce sum %[[TOTAL]] {{.*}}"sum"
// CHECK: autopar.unary exp {{.*}}"y@1"
// CHECK: autopar.unary neg {{.*}}"after"

// Where a device does one or the other, and where nobody knows what it is, what runs once stands before and behind.
// ALONE: autopar.all_gather {{.*}}"w"
// ALONE: autopar.all_reduce {{.*}}"own@0"
// ALONE: "g@1"
// ALONE: "y@1"
// ALONE: autopar.all_reduce {{.*}}"sum"
// ALONE: "after"
autopar.mesh @mesh ["d" = 2]
func.func @main(%all: tensor<2x1048576xf32>, %shard: tensor<524288xf32>) -> (tensor<1048576xf32>, tensor<2x1048576xf32>) {
  %w = autopar.all_gather %shard dim 0 over @mesh ["d"] {autopar.id = "w"} : tensor<524288xf32> -> tensor<1048576xf32>
  %view = autopar.reshape %w {autopar.id = "view"} : tensor<1048576xf32> -> tensor<1048576xf32>
  %part = autopar.micro_batch %all {autopar.id = "part"} : tensor<2x1048576xf32> -> tensor<1048576xf32>
  %own = autopar.all_reduce sum %part over @mesh ["d"] {autopar.id = "own"} : tensor<1048576xf32>
  %x = autopar.unary tanh %own {autopar.id = "x"} : tensor<1048576xf32>
  %before = autopar.carried sum 0 : tensor<1048576xf32>
  %g = autopar.group %x, %view, %before {autopar.id = "g"} : (tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>) -> tensor<1048576xf32> {
  ^bb0(%a: tensor<1048576xf32>, %b: tensor<1048576xf32>, %c: tensor<1048576xf32>):
    %p = autopar.binary mul %a, %b {autopar.id = "g"} : tensor<1048576xf32>
    %s = autopar.binary add %p, %c : tensor<1048576xf32>
    autopar.yield %s : tensor<1048576xf32>
  }
  %total = autopar.carry 0 %g : tensor<1048576xf32>
  %y = autopar.unary exp %x {autopar.id = "y"} : tensor<1048576xf32>
  %ys = autopar.stack_micro_batches %y {autopar.id = "ys"} : tensor<1048576xf32> -> tensor<2x1048576xf32>
  %sum = autopar.all_reduce sum %total over @mesh ["d"] {autopar.id = "sum"} : tensor<1048576xf32>
  %after = autopar.unary neg %sum {autopar.id = "after"} : tensor<1048576xf32>
  return %after, %ys : tensor<1048576xf32>, tensor<2x1048576xf32>
}
