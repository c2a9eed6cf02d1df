// What one kernel would store for another that could read what it is made of: the second computes it.
// RUN: autopar-opt %s --autopar-form-fusion-groups --split-input-file | FileCheck %s

// The gradient of a layer norm's scale reads the input and the statistics of its rows, which the
// kernel of the rows leaves; and the gradient of the bias is summed in the same kernel, which reads %g once.

// CHECK-LABEL: func.func @norm(
// CHECK-SAME: %[[X:.*]]: tensor<64x32xf32>, %[[G:.*]]: tensor<64x32xf32>
// CHECK: %[[ROWS:.*]]:3 = autopar.group %{{.*}} : (tensor<64x32xf32>, tensor<64x32xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64x32xf32>) {
// CHECK: %[[SUMS:.*]]:2 = autopar.group {{.*}}tensor<64xf32>{{.*}} -> (tensor<32xf32>, tensor<32xf32>) {
// CHECK-COUNT-2: autopar.reduce sum %{{.*}} dims [0]
// CHECK-NOT: autopar.group
func.func @norm(%x: tensor<64x32xf32>, %g: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>) {
  %y = autopar.normalize_again %x dims [1] epsilon 1.0e-05 {autopar.id = "again"} : tensor<64x32xf32>
  %bias = autopar.reduce sum %g dims [0] {autopar.id = "bias"} : tensor<64x32xf32> -> tensor<32xf32>
  %product = autopar.binary mul %g, %y {autopar.id = "product"} : tensor<64x32xf32>
  %scale = autopar.reduce sum %product dims [0] {autopar.id = "scale"} : tensor<64x32xf32> -> tensor<32xf32>
  %d = autopar.normalize_grad %x, %y, %g dims [1] epsilon 1.0e-05 {autopar.id = "gradient"} : tensor<64x32xf32>
  return %d, %scale, %bias : tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>
}

// -----

// It is stored where it takes fewer bytes than what it is made of, or somebody else has to read it.

// CHECK-LABEL: func.func @stored(
// CHECK: %[[ROWS:.*]]:3 = autopar.group {{.*}} -> (tensor<64x32xf32>, tensor<64x32xf32>, tensor<64xf32>) {
// CHECK: autopar.group %[[ROWS]]#0 {{.*}} -> tensor<32xf32> {
// CHECK: autopar.group %[[ROWS]]#1 {{.*}} -> tensor<32xf32> {
func.func @stored(%a: tensor<64x32xf32>, %b: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<64xf32>, tensor<32xf32>, tensor<32xf32>) {
  %sum = autopar.binary add %a, %b {autopar.id = "sum"} : tensor<64x32xf32>
  %twice = autopar.binary mul %sum, %sum {autopar.id = "twice"} : tensor<64x32xf32>
  %out = autopar.binary add %twice, %a {autopar.id = "out"} : tensor<64x32xf32>
  %rows = autopar.reduce max %out dims [1] {autopar.id = "rows"} : tensor<64x32xf32> -> tensor<64xf32>
  %first = autopar.reduce sum %sum dims [0] {autopar.id = "first"} : tensor<64x32xf32> -> tensor<32xf32>
  %second = autopar.reduce sum %out dims [0] {autopar.id = "second"} : tensor<64x32xf32> -> tensor<32xf32>
  return %out, %rows, %first, %second : tensor<64x32xf32>, tensor<64xf32>, tensor<32xf32>, tensor<32xf32>
}

// -----

// Column sums that a softmax reads, whose rows scale what they are sums of: the second sums need the first.

// CHECK-LABEL: func.func @excitation(
// CHECK: autopar.group
func.func @excitation(%x: tensor<64x64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %s = autopar.reduce sum %x dims [0] {autopar.id = "s"} : tensor<64x64xf32> -> tensor<64xf32>
  %z = autopar.softmax %s dim 0 {autopar.id = "z"} : tensor<64xf32>
  %zb = autopar.broadcast %z dims [1] : tensor<64xf32> -> tensor<64x64xf32>
  %y = autopar.binary mul %x, %zb {autopar.id = "y"} : tensor<64x64xf32>
  %a = autopar.reduce sum %y dims [0] {autopar.id = "a"} : tensor<64x64xf32> -> tensor<64xf32>
  %b = autopar.reduce sum %y dims [1] {autopar.id = "b"} : tensor<64x64xf32> -> tensor<64xf32>
  return %a, %b : tensor<64xf32>, tensor<64xf32>
}

// -----

// What the forward pass would keep for the backward pass, which can make it of what is there anyway: deviations from a
// mean. The mean is kept, not computed again for every element.

// CHECK-LABEL: func.func @kept(
// CHECK-SAME: %[[X:.*]]: tensor<64x32xf32>, %{{.*}}: tensor<32x32xf32>
// CHECK: %[[FORWARD:.*]]:2 = autopar.group %[[X]] {{.*}} -> (tensor<64xf32>, tensor<64x32xf32>) {
// CHECK: autopar.group %[[X]], %[[FORWARD]]#0, %{{.*}} -> tensor<64xf32> {
// CHECK-NOT: binary div
// CHECK: autopar.binary sub
func.func @kept(%x: tensor<64x32xf32>, %w: tensor<32x32xf32>) -> (tensor<64x32xf32>, tensor<64xf32>) {
  %count = autopar.constant dense<32.0> : tensor<64xf32>
  %sum = autopar.reduce sum %x dims [1] {autopar.id = "sum"} : tensor<64x32xf32> -> tensor<64xf32>
  %mean = autopar.binary div %sum, %count {autopar.id = "mean"} : tensor<64xf32>
  %each = autopar.broadcast %mean dims [0] : tensor<64xf32> -> tensor<64x32xf32>
  %less = autopar.binary sub %x, %each {autopar.id = "less"} : tensor<64x32xf32>
  %y = autopar.unary exp %less {autopar.id = "y"} : tensor<64x32xf32>
  %h = autopar.dot_general %y, %w contract [1] x [0] {autopar.id = "h"} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %g = autopar.dot_general %h, %w contract [1] x [1] {autopar.id = "g", autopar.phase = "backward"} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %p = autopar.binary mul %g, %less {autopar.id = "p", autopar.phase = "backward"} : tensor<64x32xf32>
  %d = autopar.reduce sum %p dims [1] {autopar.id = "d", autopar.phase = "backward"} : tensor<64x32xf32> -> tensor<64xf32>
  return %h, %d : tensor<64x32xf32>, tensor<64xf32>
}

// -----

// A slope for the backward pass that would wait for it in f32, and is made of what is half as wide: the backward pass
// computes it.

// CHECK-LABEL: func.func @slope_of_narrow(
// CHECK-SAME: %[[S:.*]]: tensor<64x256xbf16>, %[[I:.*]]: tensor<64xf32>, %{{.*}}: tensor<256x256xbf16>
// CHECK: autopar.group %[[S]], %[[I]] {{.*}} : {{.*}} -> tensor<64x256xbf16> {
// CHECK: autopar.group %[[S]], %[[I]], %{{.*}} -> tensor<64x256xbf16> {
// CHECK: autopar.unary sigmoid
func.func @slope_of_narrow(%s: tensor<64x256xbf16>, %i: tensor<64xf32>, %w: tensor<256x256xbf16>) -> (tensor<64x256xbf16>, tensor<64x256xbf16>) {
  %0 = autopar.cast %s : tensor<64x256xbf16> -> tensor<64x256xf32>
  %1 = autopar.broadcast %i dims [0] : tensor<64xf32> -> tensor<64x256xf32>
  %2 = autopar.binary mul %0, %1 {autopar.id = "scaled"} : tensor<64x256xf32>
  %3 = autopar.cast %2 {autopar.id = "x"} : tensor<64x256xf32> -> tensor<64x256xbf16>
  %4 = autopar.cast %3 : tensor<64x256xbf16> -> tensor<64x256xf32>
  %5 = autopar.unary silu %4 {autopar.id = "silu"} : tensor<64x256xf32>
  %6 = autopar.cast %5 {autopar.id = "y"} : tensor<64x256xf32> -> tensor<64x256xbf16>
  %7 = autopar.dot_general %6, %w contract [1] x [0] {autopar.id = "g", autopar.phase = "backward"} : (tensor<64x256xbf16>, tensor<256x256xbf16>) -> tensor<64x256xbf16>
  %8 = autopar.unary sigmoid %4 {autopar.phase = "backward"} : tensor<64x256xf32>
  %9 = autopar.cast %7 {autopar.phase = "backward"} : tensor<64x256xbf16> -> tensor<64x256xf32>
  %10 = autopar.binary mul %8, %9 {autopar.id = "x/vjp", autopar.phase = "backward"} : tensor<64x256xf32>
  %11 = autopar.cast %10 {autopar.id = "dx", autopar.phase = "backward"} : tensor<64x256xf32> -> tensor<64x256xbf16>
  return %6, %11 : tensor<64x256xbf16>, tensor<64x256xbf16>
}

// -----

// Made of as many bytes it is computed where it is read along, and stored.

// CHECK-LABEL: func.func @slope_of_wide(
// CHECK: %[[X:.*]]:2 = autopar.group {{.*}} -> (tensor<64x256xf32>, tensor<64x256xf32>) {
// CHECK: autopar.unary sigmoid
// CHECK: autopar.group %[[X]]#1, %{{.*}} -> tensor<64x256xf32> {
func.func @slope_of_wide(%a: tensor<64x256xf32>, %b: tensor<64x256xf32>, %w: tensor<256x256xf32>) -> (tensor<64x256xf32>, tensor<64x256xf32>) {
  %x = autopar.binary add %a, %b {autopar.id = "x"} : tensor<64x256xf32>
  %y = autopar.unary silu %x {autopar.id = "y"} : tensor<64x256xf32>
  %g = autopar.dot_general %y, %w contract [1] x [0] {autopar.id = "g", autopar.phase = "backward"} : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
  %s = autopar.unary sigmoid %x {autopar.phase = "backward"} : tensor<64x256xf32>
  %d = autopar.binary mul %s, %g {autopar.id = "x/vjp", autopar.phase = "backward"} : tensor<64x256xf32>
  return %y, %d : tensor<64x256xf32>, tensor<64x256xf32>
}
