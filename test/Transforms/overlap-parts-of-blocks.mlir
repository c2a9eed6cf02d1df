// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "c", "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 1e9, "bf16": 1e9}, "memory_bytes_per_s": 1e12, "memory_bytes": 1073741824}], "nodes": [{"count": 1, "devices_per_node": 2, "device_type": "gpu"}], "levels": [{"latency_us": 0, "bytes_per_s": 1e8}]}' > %t.json
// RUN: autopar-opt %s --autopar-overlap-parts="cluster=%t.json" | FileCheck %s
// RUN: autopar-opt %s --autopar-overlap-parts="cluster=%t.json saves=-1000" | FileCheck %s

// Where ranks join their positions, a part has its share of the positions of each, and what is cut again gives each
// rank its own: nothing is put in another order but the mask, whose positions are those of the model.
// CHECK: func.func @main
// CHECK: %[[G0:.*]] = autopar.all_gather %{{.*}} dim 0 over @mesh ["t"] {autopar.id = "gather/part0"} : tensor<16x64xf32> -> tensor<32x64xf32>
// CHECK: autopar.all_gather {{.*}} "gather/part1"
// CHECK: %[[BLOCKS:.*]] = autopar.reshape %arg2 : tensor<64x64xf32> -> tensor<2x2x16x64xf32>
// CHECK: %[[BLOCK:.*]] = autopar.slice %[[BLOCKS]] starts [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<2x2x16x64xf32> -> tensor<2x1x16x64xf32>
// CHECK: %[[MASK0:.*]] = autopar.reshape %[[BLOCK]] : tensor<2x1x16x64xf32> -> tensor<32x64xf32>
// CHECK: autopar.slice %{{.*}} starts [0, 1, 0, 0] {{.*}} : tensor<2x2x16x64xf32> -> tensor<2x1x16x64xf32>
// CHECK: %[[P0:.*]] = autopar.dot_general %[[G0]], %arg1
// CHECK: %[[M0:.*]] = autopar.binary mul %[[P0]], %[[MASK0]] {{.*}} : tensor<32x64xf32>
// CHECK: %[[S0:.*]] = autopar.reduce_scatter sum %[[M0]] dim 0 over @mesh ["t"] {autopar.id = "scatter/part0"} : tensor<32x64xf32> -> tensor<16x64xf32>
// CHECK: %[[S1:.*]] = autopar.reduce_scatter {{.*}}part1
// CHECK: autopar.concat %[[S0]], %[[S1]] dim 0 {{.*}} -> tensor<32x64xf32>
autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<32x64xf32>, %v: tensor<64x64xf32> {autopar.origin = @v}, %mask: tensor<64x64xf32>) -> tensor<32x64xf32> {
  %g = autopar.all_gather %x dim 0 over @mesh ["t"] {autopar.id = "gather"} : tensor<32x64xf32> -> tensor<64x64xf32>
  %p = autopar.dot_general %g, %v contract [1] x [0] {autopar.id = "p"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %m = autopar.binary mul %p, %mask {autopar.id = "m"} : tensor<64x64xf32>
  %s = autopar.reduce_scatter sum %m dim 0 over @mesh ["t"] {autopar.id = "scatter"} : tensor<64x64xf32> -> tensor<32x64xf32>
  return %s : tensor<32x64xf32>
}
autopar.origin @v : tensor<64x64xf32>
