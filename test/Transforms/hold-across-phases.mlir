// RUN: autopar-opt %s --autopar-hold-across-phases --split-input-file | FileCheck %s

// A parameter is read by each phase in a way of its own, and updated where it lies. The gradient waits
// for the update behind its last reader of the backward phase.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8x16xf32>, %[[W:[a-z0-9]+]]: tensor<16x16xf32>
// CHECK: %[[WF:.*]] = autopar.hold %[[W]] {autopar.id = "w/forward"}
// CHECK: autopar.dot_general %[[X]], %[[WF]]
// CHECK: %[[WB:.*]] = autopar.hold %[[W]] {autopar.id = "w/backward"}
// CHECK: autopar.dot_general {{.*}}, %[[WB]]
// CHECK: %[[G:.*]] = autopar.dot_general
// CHECK: %[[WAITING:.*]] = autopar.hold unreduced %[[G]] {autopar.id = "dw/waiting"}
// CHECK: %[[READ:.*]] = autopar.hold %[[WAITING]] {autopar.id = "dw/read"}
// CHECK: autopar.binary sub %[[W]], %[[READ]]
autopar.origin @w : tensor<16x16xf32>
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x16xf32> {autopar.donated, autopar.name = "w", autopar.origin = @w})
    -> (tensor<16x16xf32> {autopar.name = "w"}, tensor<8x16xf32> {autopar.name = "dx"}) {
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %dx = autopar.dot_general %y, %w contract [1] x [1] {autopar.id = "dx", autopar.phase = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %dw = autopar.dot_general %x, %y contract [0] x [0] {autopar.id = "dw", autopar.phase = "backward"} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
  %next = autopar.binary sub %w, %dw {autopar.id = "w/update", autopar.phase = "update"} : tensor<16x16xf32>
  return %next, %dx : tensor<16x16xf32>, tensor<8x16xf32>
}

// -----

// Without phases nothing changes.
// CHECK-LABEL: func.func @main
// CHECK-NOT: autopar.hold
autopar.origin @w : tensor<16x16xf32>
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x16xf32> {autopar.origin = @w}) -> tensor<8x16xf32> {
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// -----

// What is made of a parameter alone is held as the parameter is; where micro-batches read it, also once for
// all of them.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:.*]] = autopar.cast %{{.*}} {autopar.id = "w/bf16"}
// CHECK: %[[S:.*]] = autopar.hold %[[C]] {autopar.id = "w/bf16/step"}
// CHECK: %[[F:.*]] = autopar.hold %[[S]] {autopar.each_micro_batch, autopar.id = "w/bf16/forward"}
// CHECK: autopar.dot_general %{{.*}}, %[[F]] {{.*}}"fc"
// CHECK: %[[B:.*]] = autopar.hold %[[S]] {autopar.each_micro_batch, autopar.id = "w/bf16/backward"}
// CHECK: autopar.dot_general %{{.*}}, %[[B]] {{.*}}"dx"
autopar.origin @w : tensor<16x16xf32>
func.func @main(%x: tensor<2x8x16xbf16>, %w: tensor<16x16xf32> {autopar.donated, autopar.name = "w", autopar.origin = @w})
    -> (tensor<16x16xf32> {autopar.name = "w"}) {
  %c = autopar.cast %w {autopar.id = "w/bf16"} : tensor<16x16xf32> -> tensor<16x16xbf16>
  %part = autopar.micro_batch %x {autopar.id = "x"} : tensor<2x8x16xbf16> -> tensor<8x16xbf16>
  %y = autopar.dot_general %part, %c contract [1] x [0] {autopar.id = "fc"} : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xbf16>
  %dx = autopar.dot_general %y, %c contract [1] x [1] {autopar.id = "dx", autopar.phase = "backward"} : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xbf16>
  %dw = autopar.dot_general %part, %dx contract [0] x [0] {autopar.id = "dw", autopar.phase = "backward"} : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<16x16xf32>
  %sum = autopar.accumulate sum %dw {autopar.id = "sum", autopar.phase = "backward"} : tensor<16x16xf32>
  %next = autopar.binary sub %w, %sum {autopar.id = "w/update", autopar.phase = "update"} : tensor<16x16xf32>
  return %next : tensor<16x16xf32>
}
