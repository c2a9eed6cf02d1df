// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "c", "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 1e9, "bf16": 1e9}, "memory_bytes_per_s": 1e12, "memory_bytes": 1073741824}], "nodes": [{"count": 1, "devices_per_node": 2, "device_type": "gpu"}], "levels": [{"latency_us": 0, "bytes_per_s": 1e8}]}' > %t.json
// RUN: autopar-opt %s --autopar-overlap-parts="cluster=%t.json" | FileCheck %s

// The first half of the rows of a triangle sees the first half of the columns, the second all of them.
// CHECK: func.func @main
// CHECK: autopar.all_reduce sum {{.*}} : tensor<1x1x32x8xf32>
// CHECK: %[[K0:.*]] = autopar.slice %arg1 starts [0, 0, 0, 0] {{.*}} : tensor<1x1x64x8xf32> -> tensor<1x1x32x8xf32>
// CHECK: %[[V0:.*]] = autopar.slice %arg2 starts [0, 0, 0, 0] {{.*}} : tensor<1x1x64x8xf32> -> tensor<1x1x32x8xf32>
// CHECK: autopar.attention %{{.*}}, %[[K0]], %[[V0]] scale 1.000000e+00 causal {autopar.id = "attention/part0"}
// CHECK: %[[K1:.*]] = autopar.slice %arg1 {{.*}} : tensor<1x1x64x8xf32> -> tensor<1x1x64x8xf32>
// CHECK: autopar.attention %{{.*}}, %[[K1]], %{{.*}} scale 1.000000e+00 causal {autopar.id = "attention/part1"} {{.*}} -> (tensor<1x1x32x8xf32>, tensor<1x1x32xf32>)
autopar.mesh @mesh ["t" = 2]
func.func @main(%q: tensor<1x1x64x8xf32>, %k: tensor<1x1x64x8xf32>, %v: tensor<1x1x64x8xf32>) -> tensor<1x1x64x8xf32> {
  %s = autopar.all_reduce sum %q over @mesh ["t"] {autopar.id = "sum"} : tensor<1x1x64x8xf32>
  %o, %l = autopar.attention %s, %k, %v scale 1.000000e+00 causal {autopar.id = "attention"} : (tensor<1x1x64x8xf32>, tensor<1x1x64x8xf32>, tensor<1x1x64x8xf32>) -> (tensor<1x1x64x8xf32>, tensor<1x1x64xf32>)
  return %o : tensor<1x1x64x8xf32>
}
