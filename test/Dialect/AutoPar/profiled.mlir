// RUN: autopar-opt %s | FileCheck %s

// A product in columns: fast on two ranks, and its saved bytes are those that were measured.
#fc = #autopar.profile<"fc", extent = 2,
    choices = [#autopar.profile_choice<"columns", inputs = [-1], outputs = [0], weight = true, included = false>],
    sizes = [4, 1, -1, 100, 7, 9, 4, 2, 0, 50, 7, 9], times = [10.0, 11.0, 9.0, 6.0, 6.0, 5.0]>

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x8xf32>, %p: tensor<16xf32>, %dy: tensor<4x32xf32>)
    -> (tensor<4x32xf32>, tensor<4x8xf32>, tensor<16xf32>) {
  // CHECK: autopar.profiled %{{.*}} weight %{{.*}} by <"fc", extent = 2
  %y, %s, %w = autopar.profiled %x weight %p by #fc : (tensor<4x8xf32>, tensor<16xf32>) -> (tensor<4x32xf32>, tensor<4x2xi8>, tensor<4x2xi8>)
  // CHECK: autopar.profiled_backward %{{.*}} saved %{{.*}} by <"fc"{{.*}}> inputs [0]
  %dx, %v = autopar.profiled_backward %dy saved %s by #fc inputs [0] : (tensor<4x32xf32>, tensor<4x2xi8>) -> (tensor<4x8xf32>, tensor<4x2xi8>)
  // CHECK: autopar.profiled_weight_gradient %{{.*}} saved %{{.*}} by <"fc"{{.*}}> whole
  %dp, %u = autopar.profiled_weight_gradient %dy saved %s by #fc whole : (tensor<4x32xf32>, tensor<4x2xi8>) -> (tensor<16xf32>, tensor<4x2xi8>)
  return %y, %dx, %dp : tensor<4x32xf32>, tensor<4x8xf32>, tensor<16xf32>
}
