// RUN: autopar-opt %s --autopar-search="cluster=presets:cpux2" | FileCheck %s --check-prefix=PLAN
// RUN: autopar-opt %s --auto-shard="cluster=presets:cpux2" | FileCheck %s

// One big product is worth splitting; the plan stands in the module, and --auto-shard applies it.
// PLAN: module attributes {autopar.plan = "{{.*}}autopar.plan
// PLAN-NOT: autopar.strategy
// CHECK: autopar.mesh @mesh ["x" = 2]
// CHECK: autopar.dot_general {{.*}}autopar.strategy = #autopar.strategy<@mesh, [{{.*}}{"x"}{{.*}}]>
func.func @main(%x: tensor<512x512xf32> {autopar.name = "x"}, %w: tensor<512x512xf32> {autopar.name = "w"}) -> (tensor<512x512xf32> {autopar.name = "y"}) {
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %y : tensor<512x512xf32>
}
