// RUN: autopar-opt %s --split-input-file --autopar-form-fusion-groups --autopar-to-exec | FileCheck %s

// The steps of a recurrence read one packed weight, made at load; the weight itself is not kept.

// CHECK-LABEL: exec.program
// CHECK: exec.entry @load
// CHECK-NEXT: exec.read "w" -> %[[PLAIN:[0-9]+]]
// CHECK-NEXT: exec.pack %[[PLAIN]] -> %[[W:[0-9]+]] for
// CHECK-NEXT: {{^ *}}}
// CHECK: exec.entry @step
// CHECK-NEXT: exec.matmul {{.*}}, %[[W]] -> {{.*}}packedB = true
// CHECK-NEXT: exec.matmul {{.*}}, %[[W]] -> {{.*}}packedB = true
// CHECK-NEXT: exec.matmul {{.*}}, %[[W]] -> {{.*}}packedB = true
module {
  autopar.origin @w : tensor<64x64xf32> in "m.onnx" at 0
  func.func @main(%x: tensor<4x64xf32> {autopar.name = "x"}, %w: tensor<64x64xf32> {autopar.name = "w", autopar.origin = @w})
      -> (tensor<4x64xf32> {autopar.name = "y"}) {
    %a = autopar.dot_general %x, %w contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %b = autopar.dot_general %a, %w contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %c = autopar.dot_general %b, %w contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    return %c : tensor<4x64xf32>
  }
}

// -----

// So are slices of one, each by itself; a GRU reads gates and candidate apart.

// CHECK-LABEL: exec.program
// CHECK: %[[PLAIN:[0-9]+]] = exec.buffer {{.*}}"w.read"
// CHECK: %[[REST:[0-9]+]] = exec.view {{.*}}%[[PLAIN]] at 16384
// CHECK: exec.entry @load
// CHECK: exec.pack %[[PLAIN]] -> %[[GATES:[0-9]+]] for
// CHECK-NEXT: exec.pack %[[REST]] -> %[[CANDIDATE:[0-9]+]] for
// CHECK-NEXT: {{^ *}}}
// CHECK: exec.entry @step
// CHECK: exec.matmul {{.*}}, %[[GATES]] ->
// CHECK: exec.matmul {{.*}}, %[[CANDIDATE]] ->
// CHECK: exec.matmul {{.*}}, %[[GATES]] ->
module {
  autopar.origin @w : tensor<128x64xf32> in "m.onnx" at 0
  func.func @main(%x: tensor<4x64xf32> {autopar.name = "x"}, %w: tensor<128x64xf32> {autopar.name = "w", autopar.origin = @w})
      -> (tensor<4x64xf32> {autopar.name = "y"}) {
    %u = autopar.slice %w starts [0, 0] steps [1, 1] : tensor<128x64xf32> -> tensor<64x64xf32>
    %v = autopar.slice %w starts [64, 0] steps [1, 1] : tensor<128x64xf32> -> tensor<64x64xf32>
    %a = autopar.dot_general %x, %u contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %b = autopar.dot_general %a, %v contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %c = autopar.dot_general %b, %u contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    return %c : tensor<4x64xf32>
  }
}

// -----

// A weight that the step also reads otherwise has to lie there as it is, so it is not stored twice.

// CHECK-LABEL: exec.program
// CHECK-NOT: exec.pack
// CHECK: exec.timetable
module {
  autopar.origin @w : tensor<64x64xf32> in "m.onnx" at 0
  func.func @main(%x: tensor<64x64xf32> {autopar.name = "x"}, %w: tensor<64x64xf32> {autopar.name = "w", autopar.origin = @w})
      -> (tensor<64x64xf32> {autopar.name = "y"}, tensor<64x64xf32> {autopar.name = "sum"}) {
    %a = autopar.dot_general %x, %w contract [1] x [1] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %b = autopar.dot_general %a, %w contract [1] x [1] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %sum = autopar.binary add %x, %w : tensor<64x64xf32>
    return %b, %sum : tensor<64x64xf32>, tensor<64x64xf32>
  }
}

// -----

// Nor is one that products of other shapes read, whose layouts would be others.

// CHECK-LABEL: exec.program
// CHECK-NOT: exec.pack
// CHECK: exec.timetable
module {
  autopar.origin @w : tensor<64x64xf32> in "m.onnx" at 0
  func.func @main(%x: tensor<64x64xf32> {autopar.name = "x"}, %y: tensor<96x64xf32> {autopar.name = "y"},
                  %w: tensor<64x64xf32> {autopar.name = "w", autopar.origin = @w})
      -> (tensor<64x64xf32> {autopar.name = "a"}, tensor<96x64xf32> {autopar.name = "b"}) {
    %a = autopar.dot_general %x, %w contract [1] x [1] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %b = autopar.dot_general %y, %w contract [1] x [1] : (tensor<96x64xf32>, tensor<64x64xf32>) -> tensor<96x64xf32>
    return %a, %b : tensor<64x64xf32>, tensor<96x64xf32>
  }
}

// -----

// What is new in each step is packed there, if eight products of few rows read it.

// CHECK-LABEL: exec.program
// CHECK: exec.entry @step
// CHECK-NEXT: exec.pack %{{[0-9]+}} -> %[[W:[0-9]+]] for
// CHECK-COUNT-8: exec.matmul {{.*}}, %[[W]] -> {{.*}}packedB = true
func.func @main(%x: tensor<4x64xf32> {autopar.name = "x"}, %w: tensor<64x64xf32> {autopar.name = "w"})
    -> (tensor<4x64xf32> {autopar.name = "y"}, tensor<64x64xf32> {autopar.name = "twice"}) {
  %a = autopar.dot_general %x, %w contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %b = autopar.dot_general %a, %w contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %c = autopar.dot_general %b, %w contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %d = autopar.dot_general %c, %w contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %e = autopar.dot_general %d, %w contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %f = autopar.dot_general %e, %w contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %g = autopar.dot_general %f, %w contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %h = autopar.dot_general %g, %w contract [1] x [1] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %twice = autopar.binary add %w, %w : tensor<64x64xf32>
  return %h, %twice : tensor<4x64xf32>, tensor<64x64xf32>
}

// -----

// One product of eight micro-batches is one.

// CHECK-LABEL: exec.program
// CHECK-NOT: exec.pack
// CHECK: exec.timetable
func.func @main(%x: tensor<4x64xf32> {autopar.name = "x"}, %w: tensor<64x64xf32> {autopar.name = "w"})
    -> (tensor<4x64xf32> {autopar.name = "y"}) {
  %a = autopar.dot_general %x, %w contract [1] x [1] {autopar.id = "fc@0"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %b = autopar.dot_general %a, %w contract [1] x [1] {autopar.id = "fc@1"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %c = autopar.dot_general %b, %w contract [1] x [1] {autopar.id = "fc@2"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %d = autopar.dot_general %c, %w contract [1] x [1] {autopar.id = "fc@3"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %e = autopar.dot_general %d, %w contract [1] x [1] {autopar.id = "fc@4"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %f = autopar.dot_general %e, %w contract [1] x [1] {autopar.id = "fc@5"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %g = autopar.dot_general %f, %w contract [1] x [1] {autopar.id = "fc@6"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %h = autopar.dot_general %g, %w contract [1] x [1] {autopar.id = "fc@7"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  return %h : tensor<4x64xf32>
}
