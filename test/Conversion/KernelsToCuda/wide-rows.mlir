// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx

// More elements than 32 bits count: a row has an address of 64 bits, all positions in it have 32.

// CHECK: .visible .entry k0(
// CHECK: mul.wide.u32 {{.*}}, 100528
// CHECK-NOT: setp.{{(lt|gt|le|ge)}}.u64
// CHECK-NOT: min.u64
// CHECK: ret;
func.func @main(%x: tensor<65536x50264xbf16> {autopar.name = "x"}) -> (tensor<65536x50264xbf16> {autopar.name = "y"}) {
  %y = autopar.softmax %x dim 1 {autopar.id = "softmax"} : tensor<65536x50264xbf16>
  return %y : tensor<65536x50264xbf16>
}
