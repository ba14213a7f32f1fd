// oneDNN's matmul primitive, by its C API of version 2 and only at run time.
#include <dlfcn.h>

#include <cstdio>

#include "gemm_peers.h"

#if KILN_HAVE_DNNL_H
#include <oneapi/dnnl/dnnl.h>
#endif

namespace kiln::bench {

#if KILN_HAVE_DNNL_H && DNNL_VERSION_MAJOR == 2

std::function<void()> onednn_matmul(void* library, const std::string& type, const Product& p, bool packed) {
#define KILN_DNNL(name) const auto name = reinterpret_cast<decltype(&dnnl_##name)>(dlsym(library, "dnnl_" #name))
  KILN_DNNL(engine_create);
  KILN_DNNL(stream_create);
  KILN_DNNL(stream_wait);
  KILN_DNNL(memory_desc_init_by_tag);
  KILN_DNNL(matmul_desc_init);
  KILN_DNNL(primitive_desc_create);
  KILN_DNNL(primitive_create);
  KILN_DNNL(primitive_execute);
  KILN_DNNL(memory_create);
  KILN_DNNL(primitive_desc_query_md);
  KILN_DNNL(reorder_primitive_desc_create);
#undef KILN_DNNL
  const dnnl_data_type_t element = type == "f32"   ? dnnl_f32
                                   : type == "f16" ? dnnl_f16
                                   : type == "i8"  ? dnnl_s8
                                                   : dnnl_bf16;
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  if (engine_create(&engine, dnnl_cpu, 0) || stream_create(&stream, engine, dnnl_stream_default_flags)) return {};
  auto describe = [&](int64_t rows, int64_t columns, dnnl_data_type_t of, dnnl_format_tag_t layout = dnnl_ab) {
    dnnl_memory_desc_t out;
    const dnnl_dims_t extents = {rows, columns};
    memory_desc_init_by_tag(&out, 2, extents, of, layout);
    return out;
  };
  const dnnl_memory_desc_t a = describe(p.m, p.k, element), b = describe(p.k, p.n, element),
                           c = describe(p.m, p.n, element == dnnl_s8 ? dnnl_s32 : element);
  const dnnl_memory_desc_t weights = packed ? describe(p.k, p.n, element, dnnl_format_tag_any) : b;
  dnnl_matmul_desc_t matmul;
  dnnl_primitive_desc_t description;
  dnnl_primitive_t primitive;
  if (matmul_desc_init(&matmul, &a, &weights, nullptr, &c) ||
      primitive_desc_create(&description, &matmul, nullptr, engine, nullptr) ||
      primitive_create(&primitive, description)) {
    return {};
  }
  auto memory = [&](const dnnl_memory_desc_t& of, const void* data) {
    dnnl_memory_t out = nullptr;
    memory_create(&out, &of, engine, const_cast<void*>(data));
    return out;
  };
  dnnl_memory_t right = memory(b, p.b);
  if (packed) {
    const dnnl_memory_desc_t& chosen = *primitive_desc_query_md(description, dnnl_query_weights_md, 0);
    const dnnl_exec_arg_t plain{DNNL_ARG_FROM, right};
    right = memory(chosen, DNNL_MEMORY_ALLOCATE);
    const dnnl_exec_arg_t moved[] = {plain, {DNNL_ARG_TO, right}};
    dnnl_primitive_desc_t reordering;
    dnnl_primitive_t reorder;
    if (reorder_primitive_desc_create(&reordering, &b, engine, &chosen, engine, nullptr) ||
        primitive_create(&reorder, reordering) || primitive_execute(reorder, stream, 2, moved) || stream_wait(stream)) {
      return {};
    }
  }
  const std::vector<dnnl_exec_arg_t> arguments = {
      {DNNL_ARG_SRC, memory(a, p.a)}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, memory(c, p.c)}};
  return [=] {
    primitive_execute(primitive, stream, static_cast<int>(arguments.size()), arguments.data());
    stream_wait(stream);
  };
}

#else

std::function<void()> onednn_matmul(void*, const std::string& type, const Product&, bool) {
  static bool told = false;
  if (!told) std::printf("# SKIPPED oneDNN for %s: no headers of oneDNN 2 when this was built\n", type.c_str());
  told = true;
  return {};
}

#endif

}  // namespace kiln::bench
