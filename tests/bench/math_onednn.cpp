// oneDNN's elementwise primitive, by its C API of version 2 and only at run time.
#include <dlfcn.h>

#include <map>

#include "math_peers.h"

#if KILN_HAVE_DNNL_H
#include <oneapi/dnnl/dnnl.h>
#endif

namespace kiln::bench {

#if KILN_HAVE_DNNL_H && DNNL_VERSION_MAJOR == 2

std::function<void()> onednn_function(const std::string& function, const float* x, float* out, long count) {
  static const std::map<std::string, dnnl_alg_kind_t> algorithms = {
      {"exp", dnnl_eltwise_exp}, {"log", dnnl_eltwise_log}, {"tanh", dnnl_eltwise_tanh}};
  const auto algorithm = algorithms.find(function);
  void* library = dlopen("libdnnl.so.2", RTLD_NOW);
  if (algorithm == algorithms.end() || !library) return {};
#define KILN_DNNL(name) const auto name = reinterpret_cast<decltype(&dnnl_##name)>(dlsym(library, "dnnl_" #name))
  KILN_DNNL(engine_create);
  KILN_DNNL(stream_create);
  KILN_DNNL(stream_wait);
  KILN_DNNL(memory_desc_init_by_tag);
  KILN_DNNL(eltwise_forward_desc_init);
  KILN_DNNL(primitive_desc_create);
  KILN_DNNL(primitive_create);
  KILN_DNNL(primitive_execute);
  KILN_DNNL(memory_create);
#undef KILN_DNNL
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_memory_desc_t shape;
  dnnl_eltwise_desc_t eltwise;
  dnnl_primitive_desc_t description;
  dnnl_primitive_t primitive;
  dnnl_memory_t from, to;
  const dnnl_dims_t extents = {count};
  if (engine_create(&engine, dnnl_cpu, 0) || stream_create(&stream, engine, dnnl_stream_default_flags) ||
      memory_desc_init_by_tag(&shape, 1, extents, dnnl_f32, dnnl_a) ||
      eltwise_forward_desc_init(&eltwise, dnnl_forward_inference, algorithm->second, &shape, 0, 0) ||
      primitive_desc_create(&description, &eltwise, nullptr, engine, nullptr) ||
      primitive_create(&primitive, description) || memory_create(&from, &shape, engine, const_cast<float*>(x)) ||
      memory_create(&to, &shape, engine, out)) {
    return {};
  }
  const std::vector<dnnl_exec_arg_t> arguments = {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}};
  return [=] {
    primitive_execute(primitive, stream, static_cast<int>(arguments.size()), arguments.data());
    stream_wait(stream);
  };
}

#else

std::function<void()> onednn_function(const std::string&, const float*, float*, long) { return {}; }

#endif

}  // namespace kiln::bench
