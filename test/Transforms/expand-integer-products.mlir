// RUN: autopar-opt %s --autopar-expand-integer-products --split-input-file | FileCheck %s
// RUN: autopar-opt %s --autopar-expand-integer-products=bf16 --split-input-file | FileCheck %s --check-prefix=BF16

// Terms below 2^24 together are one piece: 512 of 255 * 128. What is read twice becomes
// floats once.

// CHECK-LABEL: func.func @main
// CHECK:       %[[A:.*]] = autopar.cast %arg0 {{.*}}-> tensor<8x512xi32>
// CHECK:       %[[X:.*]] = autopar.cast %[[A]] {autopar.id = "a/f32"} : tensor<8x512xi32> -> tensor<8x512xf32>
// CHECK:       %[[V:.*]] = autopar.cast %{{.*}} {autopar.id = "v/f32"}
// CHECK:       %[[W:.*]] = autopar.cast %{{.*}} -> tensor<512x4xf32>
// CHECK:       %[[S:.*]] = autopar.dot_general %[[X]], %[[W]] contract [1] x [0] {autopar.id = "y/f32"} : (tensor<8x512xf32>, tensor<512x4xf32>) -> tensor<8x4xf32>
// CHECK:       %[[Y:.*]] = autopar.cast %[[S]] {autopar.id = "y"} : tensor<8x4xf32> -> tensor<8x4xi32>
// CHECK:       %[[T:.*]] = autopar.dot_general %[[V]], %[[V]]
// CHECK:       %[[Z:.*]] = autopar.cast %[[T]] {autopar.id = "z"}
// CHECK:       return %[[Y]], %[[Z]]
// BF16-LABEL:  func.func @main
// BF16:        autopar.dot_general {{.*}} : (tensor<8x512xbf16>, tensor<512x4xbf16>) -> tensor<8x4xf32>
func.func @main(%x: tensor<8x512xui8>, %w: tensor<512x4xi8>) -> (tensor<8x4xi32>, tensor<8x8xi32>) {
  %a = autopar.cast %x {autopar.id = "a"} : tensor<8x512xui8> -> tensor<8x512xi32>
  %v = autopar.slice %a starts [0, 0] steps [1, 1] {autopar.id = "v"} : tensor<8x512xi32> -> tensor<8x256xi32>
  %b = autopar.cast %w {autopar.id = "b"} : tensor<512x4xi8> -> tensor<512x4xi32>
  %y = autopar.dot_general %a, %b contract [1] x [0] {autopar.id = "y"} : (tensor<8x512xi32>, tensor<512x4xi32>) -> tensor<8x4xi32>
  %z = autopar.dot_general %v, %v contract [1] x [1] {autopar.id = "z"} : (tensor<8x256xi32>, tensor<8x256xi32>) -> tensor<8x8xi32>
  return %y, %z : tensor<8x4xi32>, tensor<8x8xi32>
}

// -----

// More are pieces, which are added as integers. Numbers that no piece divides have zeros behind
// them; batches stay.

// CHECK-LABEL: func.func @main
// CHECK:       %[[X:.*]] = autopar.pad %{{.*}} low [0, 0, 0] {{.*}} -> tensor<3x8x770xf32>
// CHECK:       %[[A:.*]] = autopar.reshape %[[X]] {{.*}} -> tensor<3x8x2x385xf32>
// CHECK:       %[[W:.*]] = autopar.pad %{{.*}} -> tensor<3x770x4xf32>
// CHECK:       %[[B:.*]] = autopar.reshape %[[W]] {{.*}} -> tensor<3x2x385x4xf32>
// CHECK:       %[[S:.*]] = autopar.dot_general %[[A]], %[[B]] batch [2, 0] x [1, 0] contract [3] x [2] {{.*}} -> tensor<2x3x8x4xf32>
// CHECK:       %[[L:.*]] = autopar.slice %[[S]] starts [0, 0, 0, 0]
// CHECK:       %[[F:.*]] = autopar.reshape %[[L]] {{.*}} -> tensor<3x8x4xf32>
// CHECK:       %[[I:.*]] = autopar.cast %[[F]] {{.*}} -> tensor<3x8x4xi32>
// CHECK:       autopar.slice %[[S]] starts [1, 0, 0, 0]
// CHECK:       %[[Y:.*]] = autopar.binary add %[[I]], %{{.*}} {autopar.id = "y"} : tensor<3x8x4xi32>
// CHECK:       return %[[Y]]
// BF16-LABEL:  func.func @main
// BF16:        autopar.dot_general {{.*}} : (tensor<3x8x2x385xbf16>, tensor<3x2x385x4xbf16>) -> tensor<2x3x8x4xf32>
func.func @main(%x: tensor<3x8x769xui8>, %w: tensor<3x769x4xi8>) -> tensor<3x8x4xi32> {
  %a = autopar.cast %x {autopar.id = "a"} : tensor<3x8x769xui8> -> tensor<3x8x769xi32>
  %b = autopar.cast %w {autopar.id = "b"} : tensor<3x769x4xi8> -> tensor<3x769x4xi32>
  %y = autopar.dot_general %a, %b batch [0] x [0] contract [2] x [1] {autopar.id = "y"} : (tensor<3x8x769xi32>, tensor<3x769x4xi32>) -> tensor<3x8x4xi32>
  return %y : tensor<3x8x4xi32>
}

// -----

// A zero point widens the range, more if it is not known: of 255 * 255, 258 terms are a piece; of
// 128 * 128, 1,024, but 512 of f32, which the runtime would sum in quarters. Numbers above 256 are
// no bf16.

// CHECK-LABEL: func.func @main
// CHECK:       autopar.dot_general {{.*}} -> tensor<4x8x4xf32>
// CHECK:       autopar.dot_general {{.*}} (tensor<8x2x512xf32>, tensor<2x512x4xf32>)
// BF16-LABEL:  func.func @main
// BF16:        autopar.dot_general {{.*}} (tensor<8x4x256xbf16>, tensor<4x256x4xbf16>)
// BF16:        autopar.dot_general {{.*}} (tensor<8x1024xbf16>, tensor<1024x4xbf16>)
// BF16:        autopar.dot_general {{.*}} (tensor<8x4x256xf32>, tensor<4x256x4xf32>)
func.func @main(%x: tensor<8x1024xui8>, %z: tensor<ui8>, %w: tensor<1024x4xi8>, %v: tensor<i8>)
    -> (tensor<8x4xi32>, tensor<8x4xi32>, tensor<8x4xi32>) {
  %xi = autopar.cast %x {autopar.id = "xi"} : tensor<8x1024xui8> -> tensor<8x1024xi32>
  %wi = autopar.cast %w {autopar.id = "wi"} : tensor<1024x4xi8> -> tensor<1024x4xi32>
  %zi = autopar.cast %z {autopar.id = "zi"} : tensor<ui8> -> tensor<i32>
  %vi = autopar.cast %v {autopar.id = "vi"} : tensor<i8> -> tensor<i32>
  %zs = autopar.broadcast %zi dims [] {autopar.id = "zs"} : tensor<i32> -> tensor<8x1024xi32>
  %vs = autopar.broadcast %vi dims [] {autopar.id = "vs"} : tensor<i32> -> tensor<1024x4xi32>
  %a = autopar.binary sub %xi, %zs {autopar.id = "a"} : tensor<8x1024xi32>
  %b = autopar.binary sub %wi, %vs {autopar.id = "b"} : tensor<1024x4xi32>
  %y = autopar.dot_general %a, %b contract [1] x [0] {autopar.id = "y"} : (tensor<8x1024xi32>, tensor<1024x4xi32>) -> tensor<8x4xi32>
  %c = autopar.constant {autopar.id = "c"} dense<128> : tensor<8x1024xi32>
  %d = autopar.binary sub %xi, %c {autopar.id = "d"} : tensor<8x1024xi32>
  %u = autopar.dot_general %d, %wi contract [1] x [0] {autopar.id = "u"} : (tensor<8x1024xi32>, tensor<1024x4xi32>) -> tensor<8x4xi32>
  %e = autopar.constant {autopar.id = "e"} dense<200> : tensor<8x1024xi32>
  %g = autopar.binary add %xi, %e {autopar.id = "g"} : tensor<8x1024xi32>
  %t = autopar.dot_general %g, %wi contract [1] x [0] {autopar.id = "t"} : (tensor<8x1024xi32>, tensor<1024x4xi32>) -> tensor<8x4xi32>
  return %y, %u, %t : tensor<8x4xi32>, tensor<8x4xi32>, tensor<8x4xi32>
}

// -----

// Pieces of a convolution are groups of channels, whole blocks of the library.

// CHECK-LABEL: func.func @main
// CHECK:       %[[P:.*]] = autopar.reshape %{{.*}} -> tensor<16x2x32x3x3xf32>
// CHECK:       %[[T:.*]] = autopar.transpose %[[P]] permutation [1, 0, 2, 3, 4]
// CHECK:       %[[W:.*]] = autopar.reshape %[[T]] {{.*}} -> tensor<32x32x3x3xf32>
// CHECK:       %[[S:.*]] = autopar.convolution %{{.*}}, %[[W]] {{{.*}}autopar.whole_numbers{{.*}}groups = 2 {{.*}} -> tensor<1x32x8x8xf32>
// CHECK:       autopar.slice %[[S]] starts [0, 0, 0, 0] {{.*}} -> tensor<1x16x8x8xf32>
// CHECK:       autopar.slice %[[S]] starts [0, 16, 0, 0]
// CHECK:       autopar.binary add {{.*}} {autopar.id = "y"} : tensor<1x16x8x8xi32>
// BF16-LABEL:  func.func @main
// BF16:        autopar.convolution {{.*}} (tensor<1x64x8x8xbf16>, tensor<32x32x3x3xbf16>) -> tensor<1x32x8x8xf32>
func.func @main(%x: tensor<1x64x8x8xui8>, %w: tensor<16x64x3x3xi8>) -> tensor<1x16x8x8xi32> {
  %a = autopar.cast %x {autopar.id = "a"} : tensor<1x64x8x8xui8> -> tensor<1x64x8x8xi32>
  %b = autopar.cast %w {autopar.id = "b"} : tensor<16x64x3x3xi8> -> tensor<16x64x3x3xi32>
  %y = autopar.convolution %a, %b {autopar.id = "y", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>,
      inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x64x8x8xi32>, tensor<16x64x3x3xi32>) -> tensor<1x16x8x8xi32>
  return %y : tensor<1x16x8x8xi32>
}

// -----

// Groups are cut into pieces each: first the first pieces of all groups, then the second.

// CHECK-LABEL: func.func @main
// CHECK:       %[[G:.*]] = autopar.reshape %{{.*}} -> tensor<1x2x64x8x8xf32>
// CHECK:       %[[P:.*]] = autopar.reshape %[[G]] {{.*}} -> tensor<1x2x2x32x8x8xf32>
// CHECK:       %[[T:.*]] = autopar.transpose %[[P]] permutation [0, 2, 1, 3, 4, 5]
// CHECK:       %[[J:.*]] = autopar.reshape %[[T]] {{.*}} -> tensor<1x4x32x8x8xf32>
// CHECK:       %[[X:.*]] = autopar.reshape %[[J]] {{.*}} -> tensor<1x128x8x8xf32>
// CHECK:       autopar.transpose %{{.*}} permutation [1, 0, 2, 3, 4] {{.*}} -> tensor<2x16x32x3x3xf32>
// CHECK:       %[[S:.*]] = autopar.convolution %[[X]], {{.*}} groups = 4 {{.*}} -> tensor<1x32x8x8xf32>
// CHECK:       autopar.slice %[[S]] starts [0, 16, 0, 0]
func.func @main(%x: tensor<1x128x8x8xui8>, %w: tensor<16x64x3x3xi8>) -> tensor<1x16x8x8xi32> {
  %a = autopar.cast %x {autopar.id = "a"} : tensor<1x128x8x8xui8> -> tensor<1x128x8x8xi32>
  %b = autopar.cast %w {autopar.id = "b"} : tensor<16x64x3x3xi8> -> tensor<16x64x3x3xi32>
  %y = autopar.convolution %a, %b {autopar.id = "y", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>,
      inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 2 : i64} : (tensor<1x128x8x8xi32>, tensor<16x64x3x3xi32>) -> tensor<1x16x8x8xi32>
  return %y : tensor<1x16x8x8xi32>
}

// -----

// A window of 900 places is two of 450; the second has no padding above, which is cut off the input
// where the first has none below.

// CHECK-LABEL: func.func @main
// CHECK:       autopar.slice %{{.*}} starts [0, 0, 0, 0] steps [1, 1, 1, 1] {autopar.id = "y/window.0/input"} : tensor<1x1x60x60xi32> -> tensor<1x1x46x60xi32>
// CHECK:       autopar.convolution {{.*}} {autopar.id = "y/window.0/f32", {{.*}} padBegin = array<i64: 1, 1>, padEnd = array<i64: 0, 1>
// CHECK:       autopar.slice %{{.*}} starts [0, 0, 14, 0] steps [1, 1, 1, 1] {autopar.id = "y/window.15/input"} : tensor<1x1x60x60xi32> -> tensor<1x1x46x60xi32>
// CHECK:       autopar.slice %{{.*}} starts [0, 0, 15, 0] steps [1, 1, 1, 1] {autopar.id = "y/window.15/filter"} : tensor<8x1x30x30xi32> -> tensor<8x1x15x30xi32>
// CHECK:       autopar.convolution {{.*}} {autopar.id = "y/window.15/f32", {{.*}} padBegin = array<i64: 0, 1>, padEnd = array<i64: 1, 1>
// CHECK:       autopar.binary add {{.*}} {autopar.id = "y"} : tensor<1x8x33x33xi32>
func.func @main(%x: tensor<1x1x60x60xui8>, %w: tensor<8x1x30x30xi8>) -> tensor<1x8x33x33xi32> {
  %a = autopar.cast %x {autopar.id = "a"} : tensor<1x1x60x60xui8> -> tensor<1x1x60x60xi32>
  %b = autopar.cast %w {autopar.id = "b"} : tensor<8x1x30x30xi8> -> tensor<8x1x30x30xi32>
  %y = autopar.convolution %a, %b {autopar.id = "y", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>,
      inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x1x60x60xi32>, tensor<8x1x30x30xi32>) -> tensor<1x8x33x33xi32>
  return %y : tensor<1x8x33x33xi32>
}

// -----

// Transposed convolutions have pieces of the channels that they read. Who wants floats of the sums of
// one piece has them.

// CHECK-LABEL: func.func @main
// CHECK:       %[[S:.*]] = autopar.convolution_input_grad {{.*}} groups = 1 {{.*}} -> tensor<1x8x16x16xf32>
// CHECK:       autopar.convolution_input_grad {{.*}} groups = 3 {{.*}} (tensor<1x288x8x8xf32>, tensor<288x8x2x2xf32>) -> tensor<1x24x16x16xf32>
// CHECK:       return %[[S]], %{{.*}}
func.func @main(%x: tensor<1x64x8x8xui8>, %w: tensor<64x8x2x2xi8>, %u: tensor<1x288x8x8xui8>, %v: tensor<288x8x2x2xi8>)
    -> (tensor<1x8x16x16xf32>, tensor<1x8x16x16xi32>) {
  %a = autopar.cast %x {autopar.id = "a"} : tensor<1x64x8x8xui8> -> tensor<1x64x8x8xi32>
  %b = autopar.cast %w {autopar.id = "b"} : tensor<64x8x2x2xi8> -> tensor<64x8x2x2xi32>
  %c = autopar.cast %u {autopar.id = "c"} : tensor<1x288x8x8xui8> -> tensor<1x288x8x8xi32>
  %d = autopar.cast %v {autopar.id = "d"} : tensor<288x8x2x2xi8> -> tensor<288x8x2x2xi32>
  %y = autopar.convolution_input_grad %a, %b {autopar.id = "y", strides = array<i64: 2, 2>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>,
      inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x64x8x8xi32>, tensor<64x8x2x2xi32>) -> tensor<1x8x16x16xi32>
  %f = autopar.cast %y {autopar.id = "f"} : tensor<1x8x16x16xi32> -> tensor<1x8x16x16xf32>
  %z = autopar.convolution_input_grad %c, %d {autopar.id = "z", strides = array<i64: 2, 2>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>,
      inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x288x8x8xi32>, tensor<288x8x2x2xi32>) -> tensor<1x8x16x16xi32>
  return %f, %z : tensor<1x8x16x16xf32>, tensor<1x8x16x16xi32>
}

// -----

// Left alone: integers that may be large, sums of so many terms that the pieces would be more than
// 256, groups of a transposed convolution that are more than a piece, a type that is not i32.

// CHECK-LABEL: func.func @main
// CHECK-NOT:   f32
func.func @main(%x: tensor<8x64xi32>, %h: tensor<8x64xi16>, %l: tensor<1x70000xui8>, %i: tensor<1x288x8x8xui8>, %f: tensor<288x8x2x2xi8>)
    -> (tensor<8x8xi32>, tensor<8x8xi32>, tensor<1x1xi32>, tensor<1x16x16x16xi32>, tensor<1x1xi64>) {
  %large = autopar.dot_general %x, %x contract [1] x [1] {autopar.id = "large"} : (tensor<8x64xi32>, tensor<8x64xi32>) -> tensor<8x8xi32>
  %h32 = autopar.cast %h {autopar.id = "h32"} : tensor<8x64xi16> -> tensor<8x64xi32>
  %half = autopar.dot_general %h32, %h32 contract [1] x [1] {autopar.id = "half"} : (tensor<8x64xi32>, tensor<8x64xi32>) -> tensor<8x8xi32>
  %l32 = autopar.cast %l {autopar.id = "l32"} : tensor<1x70000xui8> -> tensor<1x70000xi32>
  %long = autopar.dot_general %l32, %l32 contract [1] x [1] {autopar.id = "long"} : (tensor<1x70000xi32>, tensor<1x70000xi32>) -> tensor<1x1xi32>
  %i32 = autopar.cast %i {autopar.id = "i32"} : tensor<1x288x8x8xui8> -> tensor<1x288x8x8xi32>
  %g32 = autopar.cast %f {autopar.id = "g"} : tensor<288x8x2x2xi8> -> tensor<288x8x2x2xi32>
  %grouped = autopar.convolution_input_grad %i32, %g32 {autopar.id = "grouped", strides = array<i64: 2, 2>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>,
      inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 2 : i64} : (tensor<1x288x8x8xi32>, tensor<288x8x2x2xi32>) -> tensor<1x16x16x16xi32>
  %l64 = autopar.cast %l {autopar.id = "l64"} : tensor<1x70000xui8> -> tensor<1x70000xi64>
  %wide = autopar.dot_general %l64, %l64 contract [1] x [1] {autopar.id = "wide"} : (tensor<1x70000xi64>, tensor<1x70000xi64>) -> tensor<1x1xi64>
  return %large, %half, %long, %grouped, %wide : tensor<8x8xi32>, tensor<8x8xi32>, tensor<1x1xi32>, tensor<1x16x16x16xi32>, tensor<1x1xi64>
}
