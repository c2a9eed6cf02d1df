// What a plan needs to become a program, pass by pass in one call.
// RUN: autopar-opt %s --autopar-search=cluster=presets:h100x2 --autopar-annotate --autopar-insert-reshards --autopar-cut-stages --autopar-insert-recompute --autopar-schedule | FileCheck %s
// RUN: not autopar-opt %s --autopar-cut-stages=stages=2 2>&1 | FileCheck %s --check-prefix=NONE

// CHECK: autopar.plan
// CHECK: autopar.mesh @mesh
// CHECK: autopar.dot_general
// NONE: error: stages: has no cluster to shard for; declare autopar.cluster or give the option cluster=FILE
func.func @main(%x: tensor<512x512xf32> {autopar.name = "x"}, %w: tensor<512x512xf32> {autopar.name = "w"}) -> (tensor<512x512xf32> {autopar.name = "y"}) {
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %y : tensor<512x512xf32>
}
