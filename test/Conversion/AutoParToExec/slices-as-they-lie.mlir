// RUN: autopar-opt %s --split-input-file --autopar-form-fusion-groups --autopar-to-exec="pack-weights=false" | FileCheck %s

// Most of a value, whose bytes lie together, is read where it lies: a kernel reads it there, and a result is bound to it.

// CHECK: %[[ALL:.*]] = exec.buffer "sum" {{.*}} : tensor<24x16xf32>
// CHECK: %[[PART:.*]] = exec.view "part" %[[ALL]] at 512 bytes 1024
// CHECK: %[[Y:.*]] = exec.view "y" %[[PART]] at 0 bytes 1024
// CHECK: exec.port output "y" %[[Y]]
// CHECK: exec.entry @step
// CHECK-COUNT-2: exec.launch
// CHECK-NOT: exec.launch
// CHECK-NOT: exec.copy
// CHECK: exec.timetable
func.func @main(%x: tensor<24x16xf32> {autopar.name = "x"})
    -> (tensor<16x16xf32> {autopar.name = "y"}, tensor<16x16xf32> {autopar.name = "z"}) {
  %sum = autopar.cumulative sum %x dim 1 {autopar.id = "sum"} : tensor<24x16xf32>
  %part = autopar.slice %sum starts [8, 0] steps [1, 1] {autopar.id = "part"} : tensor<24x16xf32> -> tensor<16x16xf32>
  %z = autopar.cumulative sum %part dim 0 {autopar.id = "z"} : tensor<16x16xf32>
  return %part, %z : tensor<16x16xf32>, tensor<16x16xf32>
}

// -----

// Less than half of it would keep the rest alive, and what starts off kernels' alignment is copied.

// CHECK: exec.entry @step
// CHECK-COUNT-3: exec.launch
// CHECK: exec.timetable
func.func @main(%x: tensor<24x16xf32> {autopar.name = "x"})
    -> (tensor<8x16xf32> {autopar.name = "y"}, tensor<23x4xf32> {autopar.name = "z"}) {
  %sum = autopar.cumulative sum %x dim 1 {autopar.id = "sum"} : tensor<24x16xf32>
  %few = autopar.slice %sum starts [0, 0] steps [1, 1] {autopar.id = "few"} : tensor<24x16xf32> -> tensor<8x16xf32>
  %askew = autopar.slice %sum starts [1, 4] steps [1, 1] {autopar.id = "askew"} : tensor<24x16xf32> -> tensor<23x4xf32>
  return %few, %askew : tensor<8x16xf32>, tensor<23x4xf32>
}
