// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "c", "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 1e15, "bf16": 1e15}, "memory_bytes_per_s": 4e10, "memory_bytes": 1073741824}], "nodes": [{"count": 1, "devices_per_node": 4, "device_type": "gpu"}], "levels": [{"latency_us": 0, "bytes_per_s": 8388608000}]}' > %t.json
// RUN: autopar-opt %s --autopar-schedule="cluster=%t.json" | FileCheck %s
// RUN: autopar-opt %s --autopar-schedule | FileCheck %s --check-prefix=UNKNOWN

// The first stage waits for a collective of its own, "own@0". What is gathered beside "a@0" is through before; the other goes behind,
// beside "x@0". Its last row is the last of all: the sum over ranks begins beside what that still does.

// CHECK: func.func @main.0
// CHECK: autopar.all_gather {{.*}}"w"
// CHECK: autopar.all_reduce {{.*}}"own@0"
// CHECK-NEXT: autopar.all_gather {{.*}}"u"
// CHECK-NEXT: autopar.unary tanh {{.*}}"x@0"
// CHECK: "s/vjp@1"
// CHECK-NEXT: autopar.all_reduce {{.*}}"sum"
// CHECK-NEXT: "y/vjp@1"
// CHECK: autopar.unary neg {{.*}}"after"

// The second stage gathers while it waits for the first. Behind its last row the first one has as much to do yet as the sum
// takes, and should not be kept waiting.
// CHECK: func.func @main.1
// CHECK-NEXT: autopar.all_gather {{.*}}"v"
// CHECK-NEXT: autopar.receive
// CHECK: autopar.send {{.*}}"home@1"
// CHECK: "r@1"
// CHECK: "q@1"
// CHECK: autopar.all_reduce {{.*}}"second"

// UNKNOWN: func.func @main.0
// UNKNOWN-NEXT: autopar.all_gather {{.*}}"w"
// UNKNOWN-NEXT: autopar.all_gather {{.*}}"u"
// UNKNOWN: autopar.all_reduce {{.*}}"own@0"
// UNKNOWN: "y/vjp@1"
// UNKNOWN: autopar.all_reduce {{.*}}"sum"
autopar.mesh @mesh.0 ["d" = 2] devices [0, 1]
autopar.mesh @mesh.1 ["d" = 2] devices [2, 3]
func.func @main(%all: tensor<2x1048576xf32>, %scale: tensor<1048576xf32> {autopar.name = "scale", autopar.donated, autopar.stage = 0 : i64},
                %shard: tensor<524288xf32> {autopar.name = "shard", autopar.donated, autopar.stage = 0 : i64},
                %half: tensor<524288xf32> {autopar.name = "half", autopar.donated, autopar.stage = 0 : i64},
                %other: tensor<524288xf32> {autopar.name = "other", autopar.donated, autopar.stage = 1 : i64})
    -> (tensor<1048576xf32> {autopar.name = "after"}, tensor<1048576xf32> {autopar.name = "ys"}, tensor<1048576xf32> {autopar.name = "second"}, tensor<1048576xf32> {autopar.name = "qs"})
    attributes {autopar.schedule = "1f1b", autopar.stage_meshes = 2 : i64} {
  %w = autopar.all_gather %shard dim 0 over @mesh.0 ["d"] {autopar.id = "w"} : tensor<524288xf32> -> tensor<1048576xf32>
  %u = autopar.all_gather %half dim 0 over @mesh.0 ["d"] {autopar.id = "u"} : tensor<524288xf32> -> tensor<1048576xf32>
  %v = autopar.all_gather %other dim 0 over @mesh.1 ["d"] {autopar.id = "v"} : tensor<524288xf32> -> tensor<1048576xf32>
  %part = autopar.micro_batch %all {autopar.id = "part"} : tensor<2x1048576xf32> -> tensor<1048576xf32>
  %a = autopar.binary mul %part, %scale {autopar.id = "a"} : tensor<1048576xf32>
  %own = autopar.all_reduce sum %a over @mesh.0 ["d"] {autopar.id = "own"} : tensor<1048576xf32>
  %x = autopar.unary tanh %own {autopar.id = "x"} : tensor<1048576xf32>
  %e = autopar.binary mul %x, %w {autopar.id = "e"} : tensor<1048576xf32>
  %f = autopar.binary mul %e, %u {autopar.id = "f"} : tensor<1048576xf32>
  %there = autopar.transfer %f to 1 {autopar.id = "there"} : tensor<1048576xf32>
  %g = autopar.binary mul %there, %v {autopar.id = "g"} : tensor<1048576xf32>
  %r0 = autopar.carried sum 2 : tensor<1048576xf32>
  %r = autopar.binary add %r0, %g {autopar.id = "r"} : tensor<1048576xf32>
  %rs = autopar.carry 2 %r : tensor<1048576xf32>
  %q0 = autopar.carried sum 3 : tensor<1048576xf32>
  %q = autopar.binary max %q0, %g {autopar.id = "q"} : tensor<1048576xf32>
  %qs = autopar.carry 3 %q : tensor<1048576xf32>
  %home = autopar.transfer %g to 0 {autopar.id = "home"} : tensor<1048576xf32>
  %s0 = autopar.carried sum 0 : tensor<1048576xf32>
  %d = autopar.binary mul %home, %x {autopar.id = "d/vjp"} : tensor<1048576xf32>
  %s = autopar.binary add %s0, %d {autopar.id = "s/vjp"} : tensor<1048576xf32>
  %total = autopar.carry 0 %s : tensor<1048576xf32>
  %y0 = autopar.carried sum 1 : tensor<1048576xf32>
  %y = autopar.unary exp %home {autopar.id = "y/vjp"} : tensor<1048576xf32>
  %ys = autopar.binary add %y0, %y {autopar.id = "ys/vjp"} : tensor<1048576xf32>
  %yt = autopar.carry 1 %ys : tensor<1048576xf32>
  %sum = autopar.all_reduce sum %total over @mesh.0 ["d"] {autopar.id = "sum"} : tensor<1048576xf32>
  %second = autopar.all_reduce sum %rs over @mesh.1 ["d"] {autopar.id = "second"} : tensor<1048576xf32>
  %after = autopar.unary neg %sum {autopar.id = "after"} : tensor<1048576xf32>
  return %after, %yt, %second, %qs : tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>
}
