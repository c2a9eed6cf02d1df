// RUN: autopar-opt %s --autopar-split-micro-batches=count=2 --canonicalize --cse | FileCheck %s

// What every micro-batch needs of the whole batch is computed before them, where inputs suffice: the
// number of samples that count.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>
// CHECK-DAG: %[[WHOLE:.*]] = autopar.reshape %[[X]] : tensor<2x4xf32> -> tensor<8xf32>
// CHECK-DAG: %[[COUNT:.*]] = autopar.reduce sum %[[WHOLE]] dims [0] {autopar.id = "count"}
// CHECK-DAG: %[[PART:.*]] = autopar.micro_batch %[[X]]
// CHECK: %[[EACH:.*]] = autopar.broadcast %[[COUNT]] dims [] {{.*}} -> tensor<4xf32>
// CHECK: %[[SHARE:.*]] = autopar.binary div %[[PART]], %[[EACH]]
// CHECK: autopar.stack_micro_batches %[[SHARE]]
func.func @main(%x: tensor<8xf32> {autopar.name = "x"}) -> tensor<8xf32> {
  %count = autopar.reduce sum %x dims [0] {autopar.id = "count"} : tensor<8xf32> -> tensor<f32>
  %all = autopar.broadcast %count dims [] {autopar.id = "all"} : tensor<f32> -> tensor<8xf32>
  %share = autopar.binary div %x, %all {autopar.id = "share"} : tensor<8xf32>
  return %share : tensor<8xf32>
}
