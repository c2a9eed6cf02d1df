// What reads or changes a few rows of a large tensor costs these rows, unless it copies the rest: in
// what evaluates a step (us, at 1000 bytes each) and in the instructions that it becomes (bytes).
//
// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "slow", "device_types": [{"name": "cpu", "peak_flops_per_s": {"f32": 1e15}, "memory_bytes_per_s": 1e9, "memory_bytes": 1000000000}], "nodes": [{"count": 1, "devices_per_node": 1, "device_type": "cpu"}], "levels": [{"name": "memory", "latency_us": 0, "bytes_per_s": 1e9}]}' > %t.json
// RUN: autopar-opt %s --autopar-evaluate-step=cluster=%t.json --autopar-to-exec | FileCheck %s

// A state that is carried on is changed where it lies: 2 rows of 256 bytes twice, the updates and
// their indices.
// CHECK: exec.launch {{.*}}bytes = 1552 : i64, flops = 128 : i64, id = "new"{{.*}} us = 1.55
// Somebody reads the old one later: all of it is copied (256 KiB twice).
// CHECK: exec.launch {{.*}}bytes = 524816 : i64, flops = 128 : i64, id = "copied"{{.*}} us = 5.248160e+02
// What the step made and nobody else reads is changed where it lies, though it is no state.
// CHECK: exec.launch {{.*}}bytes = 1552 : i64, flops = 128 : i64, id = "scattered"{{.*}} us = 1.55
// Two rows of a table, also where a kernel does more with them.
// CHECK: exec.launch {{.*}}bytes = 1040 : i64, {{.*}}id = "rows"{{.*}} us = 1.04
module {
  autopar.mesh @mesh ["t" = 1]
  func.func @main(%cache: tensor<1024x64xf32> {autopar.name = "cache", autopar.donated}, %kept: tensor<1024x64xf32> {autopar.name = "kept", autopar.donated},
                  %table: tensor<1024x64xf32> {autopar.name = "table"}, %ids: tensor<2x1xi64> {autopar.name = "ids"}, %g: tensor<2x64xf32> {autopar.name = "g"})
      -> (tensor<1024x64xf32> {autopar.name = "cache"}, tensor<1024x64xf32> {autopar.name = "kept"}, tensor<1024x64xf32> {autopar.name = "old"},
          tensor<1024x64xf32> {autopar.name = "made"}, tensor<2x64xf32> {autopar.name = "y"}) {
    %new = autopar.scatter assign %cache, %ids, %g {autopar.id = "new"} : (tensor<1024x64xf32>, tensor<2x1xi64>, tensor<2x64xf32>) -> tensor<1024x64xf32>
    %copied = autopar.scatter assign %kept, %ids, %g {autopar.id = "copied"} : (tensor<1024x64xf32>, tensor<2x1xi64>, tensor<2x64xf32>) -> tensor<1024x64xf32>
    %old = autopar.unary exp %kept {autopar.id = "old"} : tensor<1024x64xf32>
    %made = autopar.unary sin %table {autopar.id = "made"} : tensor<1024x64xf32>
    %scattered = autopar.scatter add %made, %ids, %g {autopar.id = "scattered"} : (tensor<1024x64xf32>, tensor<2x1xi64>, tensor<2x64xf32>) -> tensor<1024x64xf32>
    %rows = autopar.group %table, %ids {autopar.id = "rows"} : (tensor<1024x64xf32>, tensor<2x1xi64>) -> tensor<2x64xf32> {
    ^bb0(%t: tensor<1024x64xf32>, %i: tensor<2x1xi64>):
      %picked = autopar.gather %t, %i dims [0] batch 0 : (tensor<1024x64xf32>, tensor<2x1xi64>) -> tensor<2x64xf32>
      %neg = autopar.unary neg %picked : tensor<2x64xf32>
      autopar.yield %neg : tensor<2x64xf32>
    }
    return %new, %copied, %old, %scattered, %rows : tensor<1024x64xf32>, tensor<1024x64xf32>, tensor<1024x64xf32>, tensor<1024x64xf32>, tensor<2x64xf32>
  }
}
