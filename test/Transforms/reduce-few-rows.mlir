// RUN: autopar-opt %s --autopar-reduce-few-rows --split-input-file | FileCheck %s
// RUN: autopar-opt %s --autopar-reduce-few-rows --autopar-form-fusion-groups --autopar-to-exec --split-input-file | FileCheck %s --check-prefix=EXEC

// A weight in memory is laid out once, so that what is summed lies side by side; the product is a
// kernel. For one row nothing is repeated: groups would hold it, as they do what they make.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  %[[X:.*]]: tensor<1x64xf32>{{.*}}, %[[W:.*]]: tensor<64x256xf32>
// CHECK:       %[[T:.*]] = autopar.transpose %[[W]] permutation [1, 0] {{{.*}}autopar.laid_out
// CHECK:       %[[A:.*]] = autopar.broadcast %[[X]] dims [0, 2] {{.*}}: tensor<1x64xf32> -> tensor<1x256x64xf32>
// CHECK:       %[[B:.*]] = autopar.reshape %[[T]] {{.*}}: tensor<256x64xf32> -> tensor<1x256x64xf32>
// CHECK:       %[[P:.*]] = autopar.binary mul %[[A]], %[[B]]
// CHECK:       autopar.reduce sum %[[P]] dims [2] {autopar.few_rows, autopar.id = "y"}
// EXEC-LABEL:  exec.program
// EXEC:          exec.entry @load
// EXEC:            exec.read "w"
// EXEC:            exec.launch
// EXEC:          exec.entry @step
// EXEC-NOT:        exec.matmul
// EXEC:            exec.launch {{.*}}id = "y"
autopar.origin @w : tensor<64x256xf32> in "model.onnx" at 0
func.func @main(%x: tensor<1x64xf32> {autopar.name = "x"},
                   %w: tensor<64x256xf32> {autopar.name = "w", autopar.origin = @w})
    -> (tensor<1x256xf32> {autopar.name = "y"}) {
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "y"} : (tensor<1x64xf32>, tensor<64x256xf32>) -> tensor<1x256xf32>
  return %y : tensor<1x256xf32>
}

// -----

// One that lies so already is read where it is, and a view of it is none.

// CHECK-LABEL: func.func @main
// CHECK-NOT:   autopar.transpose
// CHECK:       autopar.broadcast %{{.*}} dims [1, 2] {{.*}}: tensor<256x64xf32> -> tensor<2x256x64xf32>
autopar.origin @w : tensor<256x64xf32> in "model.onnx" at 0
func.func @main(%x: tensor<2x64xf32> {autopar.name = "x"},
                      %w: tensor<256x64xf32> {autopar.name = "w", autopar.origin = @w})
    -> (tensor<2x256xf32> {autopar.name = "y"}) {
  %t = autopar.transpose %w permutation [1, 0] {autopar.id = "t"} : tensor<256x64xf32> -> tensor<64x256xf32>
  %y = autopar.dot_general %x, %t contract [1] x [0] {autopar.id = "y"} : (tensor<2x64xf32>, tensor<64x256xf32>) -> tensor<2x256xf32>
  return %y : tensor<2x256xf32>
}

// -----

// Weights that are made of fewer bytes are made in the kernel: nothing of their size is written.

// CHECK-LABEL: func.func @main
// EXEC-LABEL:  exec.program
// EXEC-NOT:    64x256xf32
// EXEC-NOT:    exec.matmul
// EXEC:        exec.launch {{.*}}id = "y"
autopar.origin @w : tensor<64x256xi8> in "model.onnx" at 0
autopar.origin @s : tensor<256xf32> in "model.onnx" at 0
func.func @main(%x: tensor<4x64xf32> {autopar.name = "x"},
                     %w: tensor<64x256xi8> {autopar.name = "w", autopar.origin = @w},
                     %s: tensor<256xf32> {autopar.name = "s", autopar.origin = @s})
    -> (tensor<4x256xf32> {autopar.name = "y"}) {
  %c = autopar.cast %w {autopar.id = "c"} : tensor<64x256xi8> -> tensor<64x256xf32>
  %r = autopar.broadcast %s dims [1] {autopar.id = "r"} : tensor<256xf32> -> tensor<64x256xf32>
  %m = autopar.binary mul %c, %r {autopar.id = "m"} : tensor<64x256xf32>
  %y = autopar.dot_general %x, %m contract [1] x [0] {autopar.id = "y"} : (tensor<4x64xf32>, tensor<64x256xf32>) -> tensor<4x256xf32>
  return %y : tensor<4x256xf32>
}

// -----

// Several contracted and free dimensions, in another order than the product's; narrow floats are
// summed in f32.

// CHECK-LABEL: func.func @main
// CHECK:       %[[W:.*]] = autopar.transpose %{{.*}} permutation [1, 3, 0, 2] {{{.*}}autopar.laid_out{{.*}}-> tensor<16x4x8x32xbf16>
// CHECK:       %[[X:.*]] = autopar.transpose %{{.*}} permutation [0, 2, 1]{{.*}}: tensor<1x32x8xbf16> -> tensor<1x8x32xbf16>
// CHECK:       autopar.reduce sum %{{.*}} dims [3, 4] {{.*}}: tensor<1x16x4x8x32xf32> -> tensor<1x16x4xf32>
// CHECK:       autopar.cast %{{.*}} -> tensor<1x16x4xbf16>
// EXEC-LABEL:  exec.program
autopar.origin @w : tensor<8x16x32x4xbf16> in "model.onnx" at 0
func.func @main(%x: tensor<1x32x8xbf16> {autopar.name = "x"},
                           %w: tensor<8x16x32x4xbf16> {autopar.name = "w", autopar.origin = @w})
    -> (tensor<1x16x4xbf16> {autopar.name = "y"}) {
  %y = autopar.dot_general %x, %w contract [2, 1] x [0, 2] {autopar.id = "y"}
      : (tensor<1x32x8xbf16>, tensor<8x16x32x4xbf16>) -> tensor<1x16x4xbf16>
  return %y : tensor<1x16x4xbf16>
}

// -----

// More rows, weights that change from step to step, batches and small products remain the library's.

// CHECK-LABEL: func.func @main
// CHECK-COUNT-4: autopar.dot_general
// EXEC-LABEL:  exec.program
autopar.origin @w : tensor<64x256xf32> in "model.onnx" at 0
autopar.origin @z : tensor<64x2xf32> in "model.onnx" at 0
autopar.origin @g : tensor<4x64x256xf32> in "model.onnx" at 0
func.func @main(%x: tensor<3x64xf32> {autopar.name = "x"}, %v: tensor<1x64xf32> {autopar.name = "v"},
                      %w: tensor<64x256xf32> {autopar.name = "w", autopar.origin = @w},
                      %u: tensor<64x256xf32> {autopar.name = "u"},
                      %z: tensor<64x2xf32> {autopar.name = "z", autopar.origin = @z},
                      %g: tensor<4x64x256xf32> {autopar.name = "g", autopar.origin = @g},
                      %h: tensor<4x1x64xf32> {autopar.name = "h"})
    -> (tensor<3x256xf32> {autopar.name = "a"}, tensor<1x256xf32> {autopar.name = "b"},
        tensor<1x2xf32> {autopar.name = "c"}, tensor<4x1x256xf32> {autopar.name = "d"}) {
  %a = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "a"} : (tensor<3x64xf32>, tensor<64x256xf32>) -> tensor<3x256xf32>
  %b = autopar.dot_general %v, %u contract [1] x [0] {autopar.id = "b"} : (tensor<1x64xf32>, tensor<64x256xf32>) -> tensor<1x256xf32>
  %c = autopar.dot_general %v, %z contract [1] x [0] {autopar.id = "c"} : (tensor<1x64xf32>, tensor<64x2xf32>) -> tensor<1x2xf32>
  %d = autopar.dot_general %h, %g batch [0] x [0] contract [2] x [1] {autopar.id = "d"}
      : (tensor<4x1x64xf32>, tensor<4x64x256xf32>) -> tensor<4x1x256xf32>
  return %a, %b, %c, %d : tensor<3x256xf32>, tensor<1x256xf32>, tensor<1x2xf32>, tensor<4x1x256xf32>
}

// -----

// Integers are summed as integers: floats would round.

// CHECK-LABEL: func.func @main
// CHECK-NOT:   f32
// CHECK:       autopar.binary mul {{.*}}xi32>
// CHECK:       autopar.reduce sum {{.*}} dims [1] {{.*}}xi32>
// CHECK-NOT:   f32
// CHECK:       return
autopar.origin @w : tensor<64x256xi8> in "model.onnx" at 0
func.func @main(%x: tensor<4x64xi32> {autopar.name = "x"},
                %w: tensor<64x256xi8> {autopar.name = "w", autopar.origin = @w})
    -> (tensor<4x256xi32> {autopar.name = "y"}) {
  %c = autopar.cast %w {autopar.id = "c"} : tensor<64x256xi8> -> tensor<64x256xi32>
  %y = autopar.dot_general %x, %c contract [1] x [0] {autopar.id = "y"} : (tensor<4x64xi32>, tensor<64x256xi32>) -> tensor<4x256xi32>
  return %y : tensor<4x256xi32>
}

// -----

// Steps of a recurrence read one copy of the weight that all of them multiply by.

// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: autopar.transpose
// CHECK-NOT:   autopar.transpose
// CHECK:       return
autopar.origin @w : tensor<64x64xf32> in "model.onnx" at 0
func.func @main(%x: tensor<1x64xf32> {autopar.name = "x"},
                   %w: tensor<64x64xf32> {autopar.name = "w", autopar.origin = @w})
    -> (tensor<1x64xf32> {autopar.name = "y"}) {
  %a = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "a"} : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
  %b = autopar.unary tanh %a {autopar.id = "b"} : tensor<1x64xf32>
  %y = autopar.dot_general %b, %w contract [1] x [0] {autopar.id = "y"} : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
  return %y : tensor<1x64xf32>
}

// -----

// Weights that another program holds in the order of few rows are read so by any number of them, and
// those that it packs by a call even for one row.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  %[[X:.*]]: tensor<32x64xf32>{{.*}}, %[[R:.*]]: tensor<1x64xf32>{{.*}}, %[[W:.*]]: tensor<64x256xf32>{{.*}}, %[[V:.*]]: tensor<64x256xf32>
// CHECK:       %[[T:.*]] = autopar.transpose %[[W]] permutation [1, 0] {{{.*}}autopar.laid_out
// CHECK:       autopar.dot_general %[[X]], %[[T]] contract [1] x [1] {autopar.id = "y"}
// CHECK:       autopar.dot_general %[[R]], %[[V]] contract [1] x [0] {autopar.id = "z"}
// EXEC-LABEL:  exec.program
// EXEC:          exec.entry @load
// EXEC:            exec.read "w"
// EXEC:            exec.launch
// EXEC:            exec.read "v"
// EXEC:            exec.pack
// EXEC:          exec.entry @step
// EXEC:            exec.matmul {{.*}}b = <f32[64, 256] strides[1, 64]>{{.*}}id = "y"
// EXEC:            exec.matmul {{.*}}packedB = true{{.*}}id = "z"
autopar.origin @w : tensor<64x256xf32> in "model.onnx" at 0
autopar.origin @v : tensor<64x256xf32> in "model.onnx" at 65536
func.func @main(%x: tensor<32x64xf32> {autopar.name = "x"}, %r: tensor<1x64xf32> {autopar.name = "r"},
                   %w: tensor<64x256xf32> {autopar.name = "w", autopar.origin = @w, autopar.held = "along_rows"},
                   %v: tensor<64x256xf32> {autopar.name = "v", autopar.origin = @v, autopar.held = "packed"})
    -> (tensor<32x256xf32> {autopar.name = "y"}, tensor<1x256xf32> {autopar.name = "z"}) {
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "y"} : (tensor<32x64xf32>, tensor<64x256xf32>) -> tensor<32x256xf32>
  %z = autopar.dot_general %r, %v contract [1] x [0] {autopar.id = "z"} : (tensor<1x64xf32>, tensor<64x256xf32>) -> tensor<1x256xf32>
  return %y, %z : tensor<32x256xf32>, tensor<1x256xf32>
}
