// RUN: autopar-opt %s --autopar-align-products | FileCheck %s

// The three products of a vocabulary of 50257: logits, and the gradients of hidden states and table. The table and the
// gradient of the logits are padded once each.
// CHECK-LABEL: func.func @vocabulary
// CHECK-SAME: %[[X:.*]]: tensor<4096x768xbf16>, %[[W:.*]]: tensor<50257x768xbf16>, %[[G:.*]]: tensor<4096x50257xbf16>
// CHECK: %[[GP:.*]] = autopar.pad %[[G]], %{{.*}} low [0, 0] {autopar.id = "b/padded.0", autopar.phase = "backward"} : {{.*}} -> tensor<4096x50264xbf16>
// CHECK: %[[WP:.*]] = autopar.pad %[[W]], %{{.*}} low [0, 0] {autopar.id = "a/padded.1"} : {{.*}} -> tensor<50264x768xbf16>
// CHECK: %[[A:.*]] = autopar.dot_general %[[X]], %[[WP]] contract [1] x [1] {autopar.id = "a"} : {{.*}} -> tensor<4096x50264xbf16>
// CHECK: %[[AS:.*]] = autopar.slice %[[A]] {{.*}} : tensor<4096x50264xbf16> -> tensor<4096x50257xbf16>
// CHECK: %[[B:.*]] = autopar.dot_general %[[GP]], %[[WP]] contract [1] x [0] {{.*}} -> tensor<4096x768xbf16>
// CHECK: %[[C:.*]] = autopar.dot_general %[[GP]], %[[X]] contract [0] x [0] {{.*}} -> tensor<50264x768xf32>
// CHECK: %[[CS:.*]] = autopar.slice %[[C]] {{.*}} -> tensor<50257x768xf32>
// CHECK: return %[[AS]], %[[B]], %[[CS]]
func.func @vocabulary(%x: tensor<4096x768xbf16>, %w: tensor<50257x768xbf16>, %g: tensor<4096x50257xbf16>)
    -> (tensor<4096x50257xbf16>, tensor<4096x768xbf16>, tensor<50257x768xf32>) {
  %a = autopar.dot_general %x, %w contract [1] x [1] {autopar.id = "a"} : (tensor<4096x768xbf16>, tensor<50257x768xbf16>) -> tensor<4096x50257xbf16>
  %b = autopar.dot_general %g, %w contract [1] x [0] {autopar.id = "b", autopar.phase = "backward"} : (tensor<4096x50257xbf16>, tensor<50257x768xbf16>) -> tensor<4096x768xbf16>
  %c = autopar.dot_general %g, %x contract [0] x [0] {autopar.id = "c", autopar.phase = "backward"} : (tensor<4096x50257xbf16>, tensor<4096x768xbf16>) -> tensor<50257x768xf32>
  return %a, %b, %c : tensor<4096x50257xbf16>, tensor<4096x768xbf16>, tensor<50257x768xf32>
}

// Aligned rows, although a dimension is odd; scores of attention, of which each element is used for few columns only; f32;
// an odd dimension that lies across the rows of a transposed operand.
// CHECK-LABEL: func.func @stay
// CHECK-NOT: autopar.pad
// CHECK: return
func.func @stay(%x: tensor<4097x768xbf16>, %w: tensor<768x1024xbf16>, %q: tensor<12x197x64xbf16>, %f: tensor<1024x1023xf32>, %t: tensor<769x1024xbf16>)
    -> (tensor<4097x1024xbf16>, tensor<12x197x197xbf16>, tensor<1024x1024xf32>, tensor<1024x1024xbf16>) {
  %a = autopar.dot_general %x, %w contract [1] x [0] : (tensor<4097x768xbf16>, tensor<768x1024xbf16>) -> tensor<4097x1024xbf16>
  %b = autopar.dot_general %q, %q batch [0] x [0] contract [2] x [2] : (tensor<12x197x64xbf16>, tensor<12x197x64xbf16>) -> tensor<12x197x197xbf16>
  %c = autopar.dot_general %f, %f contract [1] x [1] : (tensor<1024x1023xf32>, tensor<1024x1023xf32>) -> tensor<1024x1024xf32>
  %u = autopar.transpose %t permutation [1, 0] : tensor<769x1024xbf16> -> tensor<1024x769xbf16>
  %d = autopar.dot_general %u, %t contract [1] x [0] : (tensor<1024x769xbf16>, tensor<769x1024xbf16>) -> tensor<1024x1024xbf16>
  return %a, %b, %c, %d : tensor<4097x1024xbf16>, tensor<12x197x197xbf16>, tensor<1024x1024xf32>, tensor<1024x1024xbf16>
}

// Of 8 bits both operands have rows along what is summed, of multiples of 16 elements, however few there are.
// CHECK-LABEL: func.func @bytes
// CHECK: %[[W:.*]] = autopar.pad %arg1, {{.*}} -> tensor<48x32xf8E4M3FN>
// CHECK: %[[X:.*]] = autopar.pad %arg0, {{.*}} : (tensor<4x24xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<4x32xf8E4M3FN>
// CHECK: autopar.dot_general %[[X]], %[[W]] contract [1] x [1] : {{.*}} -> tensor<4x48xbf16>
// CHECK: autopar.slice {{.*}} : tensor<4x48xbf16> -> tensor<4x40xbf16>
func.func @bytes(%x: tensor<4x24xf8E4M3FN>, %w: tensor<40x24xf8E4M3FN>) -> tensor<4x40xbf16> {
  %a = autopar.dot_general %x, %w contract [1] x [1] : (tensor<4x24xf8E4M3FN>, tensor<40x24xf8E4M3FN>) -> tensor<4x40xbf16>
  return %a : tensor<4x40xbf16>
}
