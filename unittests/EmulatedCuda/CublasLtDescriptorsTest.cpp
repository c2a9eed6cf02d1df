// SPDX-License-Identifier: Apache-2.0
// How the real cuBLASLt understands the products that it is given. Its descriptors take no GPU,
// only the choice of an algorithm does, in place of which they are read back; built where the
// library and its header are.
#include "../../lib/Runtime/device/cuda/BlasProduct.h"
#include "PlainProduct.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <sstream>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::runtime::cuda;
using namespace autopar::testing;

namespace {

void *library() {
  static void *opened = dlopen(CUBLASLT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return opened;
}

/// An attribute, which the library has to keep in as many bytes.
template <typename T, typename Descriptor, typename Attribute>
T read(cublasStatus_t (*)(Descriptor, Attribute, void *, size_t, size_t *), const char *symbol,
       const void *descriptor, Attribute attribute) {
  using Get = cublasStatus_t (*)(Descriptor, Attribute, void *, size_t, size_t *);
  T value{};
  size_t bytes = 0;
  EXPECT_EQ(reinterpret_cast<Get>(dlsym(library(), symbol))(
                static_cast<Descriptor>(const_cast<void *>(descriptor)), attribute, &value,
                sizeof(value), &bytes),
            CUBLAS_STATUS_SUCCESS)
      << symbol << " of attribute " << int(attribute);
  EXPECT_EQ(bytes, sizeof(value)) << symbol << " of attribute " << int(attribute);
  return value;
}
#define READ(type, function, descriptor, attribute)                                                \
  read<type>(&function, #function, descriptor, attribute)
#define OPERATION(type, attribute)                                                                 \
  READ(type, cublasLtMatmulDescGetAttribute, operation, CUBLASLT_MATMUL_DESC_##attribute)
#define LAYOUT(type, attribute)                                                                    \
  READ(type, cublasLtMatrixLayoutGetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_##attribute)
#define PREFERENCE(type, attribute)                                                                \
  READ(type, cublasLtMatmulPreferenceGetAttribute, preference, CUBLASLT_MATMUL_PREF_##attribute)

std::string typeName(int64_t type) {
  return type == CUDA_R_32F ? "f32" : type == CUDA_R_16BF ? "bf16" : type == -1 ? "own" : "other";
}

std::string textOf(BlasLayout layout) {
  std::ostringstream text;
  text << LAYOUT(uint64_t, ROWS) << " x " << LAYOUT(uint64_t, COLS) << " by " << LAYOUT(int64_t, LD)
       << " of " << typeName(LAYOUT(uint32_t, TYPE));
  if (int32_t count = LAYOUT(int32_t, BATCH_COUNT); count != 1)
    text << ", " << count << " by " << LAYOUT(int64_t, STRIDED_BATCH_OFFSET);
  if (LAYOUT(int32_t, ORDER) != CUBLASLT_ORDER_COL)
    text << ", in another order";
  return text.str();
}

/// What the library was told of a product.
std::string told;

BlasStatus tell(BlasHandle, BlasOperation operation, BlasLayout a, BlasLayout b, BlasLayout c,
                BlasLayout d, BlasPreference preference, int, BlasHeuristic *results, int *found) {
  std::ostringstream text;
  text << textOf(a) << (OPERATION(int32_t, TRANSA) == CUBLAS_OP_T ? ", transposed" : "") << "; "
       << textOf(b) << (OPERATION(int32_t, TRANSB) == CUBLAS_OP_T ? ", transposed" : "") << "; "
       << textOf(d) << "; epilogue " << OPERATION(uint32_t, EPILOGUE);
  if (auto bias = OPERATION(uint64_t, BIAS_POINTER))
    text << ", bias at " << bias << " of " << typeName(OPERATION(int32_t, BIAS_DATA_TYPE));
  if (auto aux = OPERATION(uint64_t, EPILOGUE_AUX_POINTER))
    text << ", aux at " << aux << " by " << OPERATION(int64_t, EPILOGUE_AUX_LD) << " of "
         << typeName(OPERATION(int32_t, EPILOGUE_AUX_DATA_TYPE));
  text << "; aligned " << PREFERENCE(uint32_t, MIN_ALIGNMENT_A_BYTES) << " "
       << PREFERENCE(uint32_t, MIN_ALIGNMENT_B_BYTES) << " "
       << PREFERENCE(uint32_t, MIN_ALIGNMENT_C_BYTES) << " "
       << PREFERENCE(uint32_t, MIN_ALIGNMENT_D_BYTES) << "; reductions "
       << PREFERENCE(uint32_t, REDUCTION_SCHEME_MASK) << " in "
       << PREFERENCE(uint64_t, MAX_WORKSPACE_BYTES);
  told = text.str();
  EXPECT_EQ(c, d);
  EXPECT_EQ(OPERATION(int32_t, COMPUTE_TYPE), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(OPERATION(int32_t, SCALE_TYPE), CUDA_R_32F);
  EXPECT_EQ(OPERATION(int32_t, POINTER_MODE), CUBLASLT_POINTER_MODE_HOST);
  *results = {};
  *found = 1;
  return BlasStatus::Success;
}

std::string toldOf(const MatmulGeometry &g) {
  BlasLtCalls calls;
#define FIND(name, symbol, parameters)                                                             \
  calls.name = reinterpret_cast<decltype(calls.name)>(dlsym(library(), #symbol));
  AUTOPAR_CUBLASLT_CALLS(FIND)
#undef FIND
  calls.statusName =
      reinterpret_cast<const char *(*)(BlasStatus)>(dlsym(library(), "cublasLtGetStatusName"));
  calls.heuristic = &tell;
  ProductAlignment alignment;
  alignment.a = 128, alignment.b = 64, alignment.c = 32, alignment.residual = 16;
  alignment.biasAt = 0x1000, alignment.gradientAt = 0x2000, alignment.auxAt = 0x3000;
  told.clear();
  auto product = BlasProduct::create(calls, nullptr, g, alignment, 1 << 20);
  EXPECT_TRUE(product.isOk()) << product.status().message();
  return told;
}

class CublasLtDescriptors : public ::testing::Test {
protected:
  void SetUp() override { ASSERT_TRUE(library()) << dlerror(); }
};

TEST_F(CublasLtDescriptors, AnActivationWithWhatItsGradientReads) {
  MatmulGeometry g = plainProduct(64, 768, 3072, DataType::BF16);
  g.hasBias = true;
  g.epilogue = Epilogue::GeluTanhAux;
  EXPECT_EQ(toldOf(g),
            "3072 x 768 by 3072 of bf16; 768 x 64 by 768 of bf16; "
            "3072 x 64 by 3072 of bf16; epilogue 164, bias at 4096 of bf16, "
            "aux at 12288 by 3072 of own; aligned 64 128 32 32; reductions 2 in 1048576");
  g = plainProduct(64, 768, 200, DataType::BF16);
  g.epilogue = Epilogue::ReluAux;
  EXPECT_EQ(toldOf(g), "200 x 768 by 200 of bf16; 768 x 64 by 768 of bf16; "
                       "200 x 64 by 200 of bf16; epilogue 130, aux at 12288 by 256 of own; "
                       "aligned 64 128 32 32; reductions 2 in 1048576");
}

TEST_F(CublasLtDescriptors, AGradientOfAnActivation) {
  MatmulGeometry g = plainProduct(64, 768, 3072, DataType::BF16);
  g.b.strides = {1, 768};
  g.hasResidual = true;
  g.epilogue = Epilogue::GeluTanhGrad;
  EXPECT_EQ(toldOf(g), "768 x 3072 by 768 of bf16, transposed; 768 x 64 by 768 of bf16; "
                       "3072 x 64 by 3072 of bf16; epilogue 192, aux at 8192 by 3072 of own; "
                       "aligned 64 128 32 32; reductions 2 in 1048576");
}

TEST_F(CublasLtDescriptors, AGradientOfAWeightWithThatOfItsBias) {
  MatmulGeometry g = plainProduct(768, 64, 3072, DataType::BF16);
  g.cType = DataType::F32;
  g.a.strides = {1, 768};
  g.epilogue = Epilogue::SumsOfB;
  EXPECT_EQ(toldOf(g), "3072 x 64 by 3072 of bf16; 768 x 64 by 768 of bf16, transposed; "
                       "3072 x 768 by 3072 of f32; epilogue 256, bias at 12288 of own; "
                       "aligned 64 128 32 32; reductions 7 in 1048576");
}

TEST_F(CublasLtDescriptors, ABatchThatAddsAResidual) {
  MatmulGeometry g;
  g.a = {{6, 5, 70}, {350, 70, 1}};
  g.b = {{1, 70, 9}, {0, 1, 70}};
  g.c = {{6, 5, 9}, {45, 9, 1}};
  g.hasResidual = true;
  EXPECT_EQ(toldOf(g), "70 x 9 by 70 of f32, 6 by 0, transposed; 70 x 5 by 70 of f32, 6 by 350; "
                       "9 x 5 by 9 of f32, 6 by 45; epilogue 1; aligned 64 128 16 32; "
                       "reductions 7 in 1048576");
}

} // namespace
