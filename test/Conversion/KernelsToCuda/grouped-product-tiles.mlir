// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx
// RUN: autopar-translate --dump %t.bin | FileCheck %s --check-prefix=DUMP

// A block of four warps for each tile of 128 rows (8 of rows, and one more for each group and for rows of none) and 128
// columns. Three steps of both sides lie in shared memory: 128 rows of 32 terms, and 32 terms of 128 columns, with 16 bytes behind each.
// DUMP: grid [26, 128, 56832] {{.*}} id "y" {{.*}} flops 167772160 bf16
// Gradients of matrices: a block for 128 x 128 of each.
// DUMP: grid [24, 128, 52224] {{.*}} id "dw"

// 16 bytes are copied past the registers, as zeros where there are none, while 64 products of small matrices are made of 16 loads.
// CHECK: cp.async.cg.shared.global [{{.*}}], [{{.*}}], 16, %r
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-COUNT-64: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-NOT: mma.sync
// CHECK: cp.async.wait_group 1
// CHECK-NEXT: bar.sync 0
// CHECK-NOT: st.shared
// CHECK: st.global.v2.b16
// CHECK: ret;
func.func @main(%x: tensor<1024x256xbf16> {autopar.name = "x"}, %w: tensor<4x256x256xbf16> {autopar.name = "w"}, %d: tensor<1024x384xbf16> {autopar.name = "d"},
                %g: tensor<1024xi64> {autopar.name = "g"}) -> (tensor<1024x256xbf16> {autopar.name = "y"}, tensor<4x256x384xbf16> {autopar.name = "dw"}) {
  %y = autopar.grouped_dot %x, %w, %g {autopar.id = "y"} : (tensor<1024x256xbf16>, tensor<4x256x256xbf16>, tensor<1024xi64>) -> tensor<1024x256xbf16>
  %dw = autopar.grouped_dot_rhs_grad %x, %d, %g {autopar.id = "dw"} : (tensor<1024x256xbf16>, tensor<1024x384xbf16>, tensor<1024xi64>) -> tensor<4x256x384xbf16>
  return %y, %dw : tensor<1024x256xbf16>, tensor<4x256x384xbf16>
}
