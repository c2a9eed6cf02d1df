// RUN: autopar-opt %s --autopar-round-in-blocks --split-input-file | FileCheck %s
// RUN: autopar-opt %s --autopar-round-in-blocks --autopar-reduce-few-rows --autopar-form-fusion-groups --autopar-to-exec --split-input-file | FileCheck %s --check-prefix=EXEC
// RUN: autopar-opt %s --autopar-round-in-blocks=instructions=avx2 --split-input-file | FileCheck %s --check-prefix=AVX2
// RUN: autopar-opt %s --autopar-round-in-blocks=instructions=avx2 --autopar-reduce-few-rows --autopar-form-fusion-groups --autopar-to-exec --split-input-file | FileCheck %s --check-prefix=EXEC-AVX2

// Few rows by weights of 4 bits: each block of x is rounded to bytes, those of even and of odd places apart; products of
// bytes are summed as i32 per block, less the zero point times the sum of the bytes, and scaled. All of it is one kernel
// behind that which rounds. Weights of 8 bits multiply the bytes as they lie; without VNNI, in halves.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  %[[X:.*]]: tensor<2x1024xf32>{{.*}}, %[[B:.*]]: tensor<64x32x16xui8>
// CHECK:       %[[AND:.*]] = autopar.binary and
// CHECK:       %[[ROWS:.*]] = autopar.reshape %[[X]] {{.*}} -> tensor<2x32x16x2xf32>
// CHECK:       %[[PARTS:.*]] = autopar.transpose %[[ROWS]] permutation [0, 3, 1, 2] {{.*}} -> tensor<2x2x32x16xf32>
// CHECK:       %[[SIZES:.*]] = autopar.unary abs %[[PARTS]]
// CHECK:       %[[LARGEST:.*]] = autopar.reduce max %[[SIZES]] dims [1, 3] {{.*}} -> tensor<2x32xf32>
// CHECK:       %[[SCALES:.*]] = autopar.binary div %[[LARGEST]]
// CHECK:       %[[WHOLE:.*]] = autopar.unary round
// CHECK:       %[[BYTES:.*]] = autopar.cast %[[WHOLE]] {{.*}} : tensor<2x2x32x16xf32> -> tensor<2x2x32x16xi8>
// CHECK:       %[[SUMS:.*]] = autopar.reduce sum %{{.*}} dims [1, 3] {{.*}} -> tensor<2x32xi32>
// CHECK:       %[[NUMBERS:.*]] = autopar.transpose %[[AND]] permutation [0, 3, 1, 2] {{.*}} -> tensor<64x2x32x16xui8>
// CHECK:       %[[TERMS:.*]] = autopar.binary mul {{.*}} : tensor<2x64x2x32x16xi32>
// CHECK:       autopar.reduce sum %[[TERMS]] dims [2, 4] {autopar.byte_sum = "vnni"{{.*}} -> tensor<2x64x32xi32>
// CHECK:       autopar.binary sub
// CHECK:       autopar.reduce sum %{{.*}} dims [2] {autopar.few_rows, autopar.id = "y"}
// CHECK:       autopar.transpose %{{.*}} permutation [0, 3, 1, 2] {{.*}} -> tensor<2x1x32x32xf32>
// CHECK:       autopar.reduce sum %{{.*}} dims [2, 4] {autopar.byte_sum = "vnni"{{.*}} : tensor<2x64x1x32x32xi32>
// CHECK-NOT:   autopar.dot_general
// EXEC-LABEL:  exec.program
// EXEC:          exec.entry @step
// EXEC-NEXT:       exec.launch {{.*}}id = "y/rows.in.parts"
// EXEC-NEXT:       exec.launch {{.*}}id = "y"
// EXEC-NEXT:       exec.launch {{.*}}id = "z/
// EXEC-NEXT:       exec.launch {{.*}}id = "z"
// EXEC:        func.func @{{.*}} attributes {autopar.multiplies_bytes}
// EXEC:          llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// AVX2-LABEL:  func.func @main
// AVX2-COUNT-1:  autopar.reduce sum %{{.*}} dims [2, 4] {autopar.byte_sum = "avx2"{{.*}} -> tensor<2x64x32xi32>
// AVX2:          %[[HIGH:.*]] = autopar.binary shift_right {{.*}} : tensor<64x32x32x1xui8>
// AVX2:          %[[LOW:.*]] = autopar.binary and {{.*}} : tensor<64x32x32x1xui8>
// AVX2:          autopar.transpose %[[HIGH]] permutation
// AVX2:          %[[OFHIGH:.*]] = autopar.reduce sum {{.*}} {autopar.byte_sum = "avx2"{{.*}} : tensor<2x64x1x32x32xi32>
// AVX2:          autopar.transpose %[[LOW]] permutation
// AVX2:          %[[OFLOW:.*]] = autopar.reduce sum {{.*}} {autopar.byte_sum = "avx2"{{.*}} : tensor<2x64x1x32x32xi32>
// AVX2:          %[[SUMS:.*]] = autopar.binary mul %[[OFHIGH]], %{{.*}} : tensor<2x64x32xi32>
// AVX2:          autopar.binary add %[[SUMS]], %[[OFLOW]] {{.*}} : tensor<2x64x32xi32>
// EXEC-AVX2-LABEL: exec.program
// EXEC-AVX2:       exec.entry @step
// EXEC-AVX2-NEXT:    exec.launch {{.*}}id = "y/rows.in.parts"
// EXEC-AVX2-NEXT:    exec.launch {{.*}}id = "y"
// EXEC-AVX2-NEXT:    exec.launch {{.*}}id = "z/
// EXEC-AVX2-NEXT:    exec.launch {{.*}}id = "z"
// EXEC-AVX2-NOT:   multiplies_bytes
// EXEC-AVX2:       llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
func.func @main(%x: tensor<2x1024xf32> {autopar.name = "x"}, %b: tensor<64x32x16xui8> {autopar.name = "b"},
                %p: tensor<64x32xf32> {autopar.name = "p"}, %s: tensor<64x32xf32> {autopar.name = "s"},
                %c: tensor<8x8x32x32xui8> {autopar.name = "c"}, %t: tensor<8x8x32xf32> {autopar.name = "t"})
    -> (tensor<2x64xf32> {autopar.name = "y"}, tensor<2x8x8xf32> {autopar.name = "z"}) {
  %n = autopar.constant dense<[0, 4]> : tensor<2xui8>
  %m = autopar.constant dense<15> : tensor<ui8>
  %0 = autopar.broadcast %b dims [0, 1, 2] : tensor<64x32x16xui8> -> tensor<64x32x16x2xui8>
  %1 = autopar.broadcast %n dims [3] : tensor<2xui8> -> tensor<64x32x16x2xui8>
  %2 = autopar.binary shift_right %0, %1 : tensor<64x32x16x2xui8>
  %3 = autopar.broadcast %m dims [] : tensor<ui8> -> tensor<64x32x16x2xui8>
  %4 = autopar.binary and %2, %3 : tensor<64x32x16x2xui8>
  %5 = autopar.reshape %4 : tensor<64x32x16x2xui8> -> tensor<64x32x32xui8>
  %6 = autopar.cast %5 : tensor<64x32x32xui8> -> tensor<64x32x32xf32>
  %7 = autopar.broadcast %p dims [0, 1] : tensor<64x32xf32> -> tensor<64x32x32xf32>
  %8 = autopar.binary sub %6, %7 : tensor<64x32x32xf32>
  %9 = autopar.broadcast %s dims [0, 1] : tensor<64x32xf32> -> tensor<64x32x32xf32>
  %10 = autopar.binary mul %8, %9 : tensor<64x32x32xf32>
  %11 = autopar.reshape %10 : tensor<64x32x32xf32> -> tensor<64x1024xf32>
  %y = autopar.dot_general %x, %11 contract [1] x [1] byte_blocks 32 {autopar.id = "y"} : (tensor<2x1024xf32>, tensor<64x1024xf32>) -> tensor<2x64xf32>
  // Numbers of 8 bits, of two dimensions, symmetric: bytes of x as they lie.
  %12 = autopar.broadcast %t dims [0, 1, 2] : tensor<8x8x32xf32> -> tensor<8x8x32x32xf32>
  %13 = autopar.cast %c : tensor<8x8x32x32xui8> -> tensor<8x8x32x32xf32>
  %14 = autopar.binary mul %13, %12 : tensor<8x8x32x32xf32>
  %15 = autopar.reshape %14 : tensor<8x8x32x32xf32> -> tensor<8x8x1024xf32>
  %z = autopar.dot_general %x, %15 contract [1] x [2] byte_blocks 32 {autopar.id = "z"} : (tensor<2x1024xf32>, tensor<8x8x1024xf32>) -> tensor<2x8x8xf32>
  return %y, %z : tensor<2x64xf32>, tensor<2x8x8xf32>
}

// -----

// Many rows: one operation has the bytes as they are, and scales and zero points in lanes of columns, laid out at load.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  tensor<2x4x1024xf32>{{.*}}, %[[B:.*]]: tensor<64x32x16xui8>{{.*}}, %[[P:.*]]: tensor<64x32xui8>{{.*}}, %[[S:.*]]: tensor<64x32xf32>
// CHECK:       %[[SCALES:.*]] = autopar.binary div {{.*}} : tensor<8x32xf32>
// CHECK:       %[[BYTES:.*]] = autopar.cast {{.*}} : tensor<8x2x32x16xf32> -> tensor<8x2x32x16xi8>
// CHECK:       %[[SUMS:.*]] = autopar.cast {{.*}} {autopar.id = "y/sums"}
// CHECK:       %[[COLUMNS:.*]] = autopar.reshape %[[S]] {{.*}} -> tensor<4x16x32xf32>
// CHECK:       %[[LANES:.*]] = autopar.transpose %[[COLUMNS]] permutation [0, 2, 1] {autopar.id = "y/scales.in.lanes", autopar.laid_out}
// CHECK:       %[[POINTS:.*]] = autopar.reshape %[[P]] {{.*}} -> tensor<4x16x32xui8>
// CHECK:       %[[ZEROS:.*]] = autopar.transpose %[[POINTS]] permutation [0, 2, 1] {autopar.id = "y/zeros.in.lanes", autopar.laid_out}
// CHECK:       %[[Y:.*]] = autopar.block_dot %[[BYTES]] scales %[[SCALES]], %[[B]] scales %[[LANES]] zeros %[[ZEROS]] sums %[[SUMS]] {autopar.byte_sum = "vnni", autopar.id = "y"}
// CHECK:       autopar.reshape %[[Y]] {{.*}} -> tensor<2x4x64xf32>
// CHECK:       autopar.block_dot %{{.*}} scales %{{.*}}, %{{.*}} scales %{{[^ ]*}} {autopar.byte_sum = "vnni", autopar.id = "z"}
// CHECK-NOT:   autopar.dot_general
// EXEC-LABEL:  exec.program
// EXEC:          exec.entry @load
// EXEC:            exec.launch {{.*}}id = "y/scales.in.lanes"
// EXEC:            exec.launch {{.*}}id = "y/zeros.in.lanes"
// EXEC:          exec.entry @step
// EXEC-NEXT:       exec.launch {{.*}}id = "y/rows.in.parts"
// EXEC-NEXT:       exec.launch {{.*}}id = "y"
// EXEC:        func.func @{{.*}} attributes {autopar.multiplies_bytes}
// EXEC:          llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// AVX2-LABEL:  func.func @main
// AVX2:          autopar.block_dot {{.*}} {autopar.byte_sum = "avx2", autopar.id = "y"}
// EXEC-AVX2-LABEL: exec.program
// EXEC-AVX2-NOT:   multiplies_bytes
// EXEC-AVX2:       llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
autopar.origin @b : tensor<64x32x16xui8> in "b.bin" at 0
autopar.origin @p : tensor<64x32xui8> in "p.bin" at 0
autopar.origin @s : tensor<64x32xf32> in "s.bin" at 0
autopar.origin @c : tensor<8x8x32x32xui8> in "c.bin" at 0
autopar.origin @t : tensor<8x8x32xf32> in "t.bin" at 0
func.func @main(%x: tensor<2x4x1024xf32> {autopar.name = "x"}, %b: tensor<64x32x16xui8> {autopar.name = "b", autopar.origin = @b},
                %p: tensor<64x32xui8> {autopar.name = "p", autopar.origin = @p}, %s: tensor<64x32xf32> {autopar.name = "s", autopar.origin = @s},
                %c: tensor<8x8x32x32xui8> {autopar.name = "c", autopar.origin = @c}, %t: tensor<8x8x32xf32> {autopar.name = "t", autopar.origin = @t})
    -> (tensor<2x4x64xf32> {autopar.name = "y"}, tensor<2x4x8x8xf32> {autopar.name = "z"}) {
  %n = autopar.constant dense<[0, 4]> : tensor<2xui8>
  %m = autopar.constant dense<15> : tensor<ui8>
  %0 = autopar.broadcast %b dims [0, 1, 2] : tensor<64x32x16xui8> -> tensor<64x32x16x2xui8>
  %1 = autopar.broadcast %n dims [3] : tensor<2xui8> -> tensor<64x32x16x2xui8>
  %2 = autopar.binary shift_right %0, %1 : tensor<64x32x16x2xui8>
  %3 = autopar.broadcast %m dims [] : tensor<ui8> -> tensor<64x32x16x2xui8>
  %4 = autopar.binary and %2, %3 : tensor<64x32x16x2xui8>
  %5 = autopar.reshape %4 : tensor<64x32x16x2xui8> -> tensor<64x32x32xui8>
  %6 = autopar.cast %5 : tensor<64x32x32xui8> -> tensor<64x32x32xf32>
  %points = autopar.cast %p : tensor<64x32xui8> -> tensor<64x32xf32>
  %7 = autopar.broadcast %points dims [0, 1] : tensor<64x32xf32> -> tensor<64x32x32xf32>
  %8 = autopar.binary sub %6, %7 : tensor<64x32x32xf32>
  %9 = autopar.broadcast %s dims [0, 1] : tensor<64x32xf32> -> tensor<64x32x32xf32>
  %10 = autopar.binary mul %8, %9 : tensor<64x32x32xf32>
  %11 = autopar.reshape %10 : tensor<64x32x32xf32> -> tensor<64x1024xf32>
  %y = autopar.dot_general %x, %11 contract [2] x [1] byte_blocks 32 {autopar.id = "y"} : (tensor<2x4x1024xf32>, tensor<64x1024xf32>) -> tensor<2x4x64xf32>
  %12 = autopar.broadcast %t dims [0, 1, 2] : tensor<8x8x32xf32> -> tensor<8x8x32x32xf32>
  %13 = autopar.cast %c : tensor<8x8x32x32xui8> -> tensor<8x8x32x32xf32>
  %14 = autopar.binary mul %13, %12 : tensor<8x8x32x32xf32>
  %15 = autopar.reshape %14 : tensor<8x8x32x32xf32> -> tensor<8x8x1024xf32>
  %z = autopar.dot_general %x, %15 contract [2] x [2] byte_blocks 32 {autopar.id = "z"} : (tensor<2x4x1024xf32>, tensor<8x8x1024xf32>) -> tensor<2x4x8x8xf32>
  return %y, %z : tensor<2x4x64xf32>, tensor<2x4x8x8xf32>
}

// -----

// Other weights: the rounded numbers are multiplied as floats, by the library; products of one value share them.

// CHECK-LABEL: func.func @main
// CHECK:       %[[WHOLE:.*]] = autopar.unary round {{.*}} : tensor<8x1x32x32xf32>
// CHECK:       %[[BYTES:.*]] = autopar.cast %[[WHOLE]] {{.*}} -> tensor<8x1x32x32xi8>
// CHECK:       %[[WIDE:.*]] = autopar.cast %[[BYTES]] {autopar.id = "y/rounded"} : tensor<8x1x32x32xi8> -> tensor<8x1x32x32xf32>
// CHECK:       autopar.binary mul %[[WIDE]]
// CHECK:       %[[X:.*]] = autopar.reshape {{.*}} {autopar.id = "y/rounded.shape"} : {{.*}} -> tensor<2x4x1024xf32>
// CHECK:       autopar.dot_general %[[X]], %{{.*}} contract [2] x [1] {autopar.id = "y"}
// CHECK-NOT:   autopar.unary round
// CHECK:       autopar.dot_general %{{.*}}, %{{.*}} contract [2] x [1] {autopar.id = "z"}
func.func @main(%x: tensor<2x4x1024xf32> {autopar.name = "x"}, %v: tensor<64x1024xf32> {autopar.name = "v"},
                %w: tensor<64x1024xf32> {autopar.name = "w"})
    -> (tensor<2x4x64xf32> {autopar.name = "y"}, tensor<2x4x64xf32> {autopar.name = "z"}) {
  %y = autopar.dot_general %x, %v contract [2] x [1] byte_blocks 32 {autopar.id = "y"} : (tensor<2x4x1024xf32>, tensor<64x1024xf32>) -> tensor<2x4x64xf32>
  %z = autopar.dot_general %x, %w contract [2] x [1] byte_blocks 32 {autopar.id = "z"} : (tensor<2x4x1024xf32>, tensor<64x1024xf32>) -> tensor<2x4x64xf32>
  return %y, %z : tensor<2x4x64xf32>, tensor<2x4x64xf32>
}

// -----

// Few rows, but weights that are no whole numbers with scales, or that somebody else reads, or blocks that fill no vector.

// CHECK-LABEL: func.func @main
// CHECK-NOT:   autopar.byte_sum
// CHECK:       autopar.dot_general {{.*}} {autopar.id = "y"}
// CHECK:       autopar.dot_general {{.*}} {autopar.id = "z"}
// CHECK:       autopar.dot_general {{.*}} {autopar.id = "u"}
func.func @main(%x: tensor<1x1024xf32> {autopar.name = "x"}, %v: tensor<64x1024xf32> {autopar.name = "v"},
                %c: tensor<64x32x32xui8> {autopar.name = "c"}, %t: tensor<64x32xf32> {autopar.name = "t"},
                %d: tensor<1x32xf32> {autopar.name = "d"}, %e: tensor<256x1x32xui8> {autopar.name = "e"},
                %f: tensor<256x1xf32> {autopar.name = "f"})
    -> (tensor<1x64xf32> {autopar.name = "y"}, tensor<1x64xf32> {autopar.name = "z"}, tensor<1x256xf32> {autopar.name = "u"},
        tensor<64x1024xf32> {autopar.name = "read"}) {
  %y = autopar.dot_general %x, %v contract [1] x [1] byte_blocks 32 {autopar.id = "y"} : (tensor<1x1024xf32>, tensor<64x1024xf32>) -> tensor<1x64xf32>
  %0 = autopar.broadcast %t dims [0, 1] : tensor<64x32xf32> -> tensor<64x32x32xf32>
  %1 = autopar.cast %c : tensor<64x32x32xui8> -> tensor<64x32x32xf32>
  %2 = autopar.binary mul %1, %0 : tensor<64x32x32xf32>
  %3 = autopar.reshape %2 : tensor<64x32x32xf32> -> tensor<64x1024xf32>
  %z = autopar.dot_general %x, %3 contract [1] x [1] byte_blocks 32 {autopar.id = "z"} : (tensor<1x1024xf32>, tensor<64x1024xf32>) -> tensor<1x64xf32>
  %4 = autopar.broadcast %f dims [0, 1] : tensor<256x1xf32> -> tensor<256x1x32xf32>
  %5 = autopar.cast %e : tensor<256x1x32xui8> -> tensor<256x1x32xf32>
  %6 = autopar.binary mul %5, %4 : tensor<256x1x32xf32>
  %7 = autopar.reshape %6 : tensor<256x1x32xf32> -> tensor<256x32xf32>
  %u = autopar.dot_general %d, %7 contract [1] x [1] byte_blocks 32 {autopar.id = "u"} : (tensor<1x32xf32>, tensor<256x32xf32>) -> tensor<1x256xf32>
  return %y, %z, %u, %3 : tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x256xf32>, tensor<64x1024xf32>
}
