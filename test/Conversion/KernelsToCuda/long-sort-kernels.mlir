// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx
// RUN: autopar-translate --dump %t.bin | FileCheck %s --check-prefix=DUMP

// A whole row that a block does not hold: it finds 2,048 results per pass over the row, worse than those before.
// DUMP: grid [64, 512, 0]
// CHECK: .visible .entry k0(
// CHECK: .shared .align 16 .b8 k0_shared_0[32768]
// CHECK: ld.shared.b64 {{.*}}, [k0_shared_0+16376]
// CHECK: bar.sync
// CHECK: ld.global.nc.b32
// CHECK: ret;
func.func @main(%x: tensor<64x50257xf32> {autopar.name = "x"}) -> (tensor<64x50257xf32> {autopar.name = "y"}, tensor<64x50257xi64> {autopar.name = "i"}) {
  %y, %i = autopar.top_k %x dim 1 {autopar.id = "s"} : (tensor<64x50257xf32>) -> (tensor<64x50257xf32>, tensor<64x50257xi64>)
  return %y, %i : tensor<64x50257xf32>, tensor<64x50257xi64>
}
