/* Arrays from elsewhere and for others: DLPack, `.npy`, `.safetensors`. */
#include <stdlib.h>

#include "check.h"

/* As DLPack 1.1 has them, https://dmlc.github.io/dlpack. */
typedef struct {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Tensor;
typedef struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(struct Managed*);
} Managed;
typedef struct Versioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(struct Versioned*);
  uint64_t flags;
  Tensor tensor;
} Versioned;

static float x[6] = {1, 2, 3, 4, 5, 6};
static int64_t shape[] = {2, 2}, strides[] = {3, 1};
static int deleted = 0;
static void count_old(Managed* self) {
  (void)self;
  ++deleted;
}
static void count(Versioned* self) {
  (void)self;
  ++deleted;
}

static Tensor tensor_of(void) {
  Tensor out = {0};
  out.data = x;
  out.device_type = 1;
  out.ndim = 2;
  out.code = 2;
  out.bits = 32;
  out.lanes = 1;
  out.shape = shape;
  out.strides = strides;
  out.byte_offset = 4;
  return out;
}

static Versioned versioned_of(void) {
  Versioned out = {0};
  out.major = 1;
  out.deleter = count;
  out.tensor = tensor_of();
  return out;
}

static void takes_dlpack(void) {
  Versioned managed = versioned_of();
  kiln_tensor *tensor, *twice;
  kiln_array array;
  CHECK_OK(kiln_tensor_from_dlpack(&managed, 1, &tensor));
  CHECK_OK(kiln_tensor_array(tensor, &array));
  CHECK(array.data == x + 1 && array.rank == 2 && array.shape[1] == 2 && array.strides[0] == 3);
  CHECK(array.type == KILN_F32 && array.device == KILN_HOST && array.flags == KILN_WRITABLE);
  CHECK_FAILS(kiln_tensor_from_dlpack(&managed, 1, &twice), KILN_INVALID_ARGUMENT, "taken over before");
  managed.deleter(&managed); /* of who does not know that it was taken */
  CHECK(deleted == 0);
  CHECK_OK(kiln_free(tensor));
  CHECK(deleted == 1 && managed.deleter == count);

  Managed old = {0};
  old.tensor = tensor_of();
  old.tensor.strides = NULL;
  old.deleter = count_old;
  CHECK_OK(kiln_tensor_from_dlpack(&old, 0, &tensor));
  CHECK_OK(kiln_tensor_array(tensor, &array));
  CHECK(array.strides == NULL);
  CHECK_FAILS(kiln_tensor_from_dlpack(&old, 0, &twice), KILN_INVALID_ARGUMENT, "taken over before");
  CHECK_OK(kiln_free(tensor));
  CHECK(deleted == 2);

  managed.flags = 1;
  managed.deleter = NULL; /* it may have none */
  CHECK_OK(kiln_tensor_from_dlpack(&managed, 1, &tensor));
  CHECK_OK(kiln_tensor_array(tensor, &array));
  CHECK((array.flags & KILN_WRITABLE) == 0);
  void* out;
  CHECK_FAILS(kiln_tensor_to_dlpack(tensor, 0, &out), KILN_INVALID_ARGUMENT, "read only");
  CHECK_OK(kiln_tensor_to_dlpack(tensor, 1, &out));
  CHECK(((Versioned*)out)->flags == 1);
  ((Versioned*)out)->deleter(out);
  CHECK_OK(kiln_free(tensor));

  managed = versioned_of();
  managed.tensor.device_type = 2;
  managed.tensor.device_id = 3;
  CHECK_OK(kiln_tensor_from_dlpack(&managed, 1, &tensor));
  CHECK_OK(kiln_tensor_array(tensor, &array));
  CHECK(array.device == KILN_CUDA && array.ordinal == 3);
  CHECK_OK(kiln_free(tensor));
}

static void refuses_dlpack(void) {
  kiln_tensor* tensor;
  Versioned managed;
  deleted = 0;
#define CHECK_BAD(change, status, words) \
  managed = versioned_of();              \
  managed.change;                        \
  CHECK_FAILS(kiln_tensor_from_dlpack(&managed, 1, &tensor), status, words);
  int64_t negative[] = {2, -1};
  CHECK_BAD(major = 2, KILN_VERSION_MISMATCH, "DLPack 2")
  CHECK_BAD(tensor.lanes = 4, KILN_INVALID_ARGUMENT, "4 lanes")
  CHECK_BAD(tensor.code = 5, KILN_INVALID_ARGUMENT, "code 5, 32 bits")
  CHECK_BAD(tensor.bits = 24, KILN_INVALID_ARGUMENT, "24 bits")
  CHECK_BAD(tensor.device_type = 8, KILN_INVALID_ARGUMENT, "device of type 8")
  CHECK_BAD(tensor.ndim = 17, KILN_INVALID_ARGUMENT, "its rank is 17")
  CHECK_BAD(tensor.ndim = -1, KILN_INVALID_ARGUMENT, "its rank is -1")
  CHECK_BAD(tensor.shape = NULL, KILN_INVALID_ARGUMENT, "its shape is NULL")
  CHECK_BAD(tensor.shape = negative, KILN_INVALID_ARGUMENT, "extent 1 is -1")
  CHECK_FAILS(kiln_tensor_from_dlpack(NULL, 1, &tensor), KILN_INVALID_ARGUMENT, "`managed` is NULL");
  CHECK(deleted == 0); /* what was refused is the caller's */
}

static void gives_dlpack(void) {
  kiln_tensor *tensor, *back;
  kiln_array array, again;
  const int64_t extents[] = {3, 4};
  void *versioned, *old;
  CHECK_OK(kiln_tensor_allocate(KILN_BF16, 2, extents, &tensor));
  CHECK_OK(kiln_tensor_array(tensor, &array));
  CHECK_OK(kiln_tensor_to_dlpack(tensor, 1, &versioned));
  CHECK_OK(kiln_tensor_to_dlpack(tensor, 0, &old));
  const Tensor* shown = &((Versioned*)versioned)->tensor;
  CHECK(((Versioned*)versioned)->major == 1 && shown->data == array.data && shown->code == 4 && shown->bits == 16);
  CHECK(shown->lanes == 1 && shown->ndim == 2 && shown->shape[0] == 3 && shown->strides[0] == 4 &&
        shown->strides[1] == 1);
  CHECK_OK(kiln_free(tensor));
  CHECK_OK(kiln_tensor_from_dlpack(versioned, 1, &back)); /* the elements live on */
  CHECK_OK(kiln_tensor_array(back, &again));
  CHECK(again.data == array.data && again.type == KILN_BF16);
  memset(again.data, 0, 24);
  CHECK_OK(kiln_free(back));
  ((Managed*)old)->deleter(old);
}

static void reads_npy(void) {
  kiln_tensor* tensor;
  kiln_array array = array_of(x, KILN_F32, 2, shape);
  CHECK_OK(kiln_array_write_npy(&array, "x.npy"));
  CHECK_OK(kiln_tensor_read_npy("x.npy", KILN_NO_TYPE, &tensor));
  CHECK_OK(kiln_tensor_array(tensor, &array));
  CHECK(array.type == KILN_F32 && array.rank == 2 && array.shape[0] == 2 && memcmp(array.data, x, 16) == 0);
  CHECK_OK(kiln_free(tensor));
  CHECK_FAILS(kiln_tensor_read_npy("x.npy", KILN_I32, &tensor), KILN_INVALID_ARGUMENT, "its dtype is '<f4'");
  CHECK_FAILS(kiln_tensor_read_npy("none.npy", 0, &tensor), KILN_INVALID_ARGUMENT, "none.npy");

  array = array_of(x, KILN_BF16, 2, shape);
  CHECK_OK(kiln_array_write_npy(&array, "b.npy"));
  CHECK_OK(kiln_tensor_read_npy("b.npy", KILN_BF16, &tensor));
  CHECK_OK(kiln_free(tensor));
  CHECK_OK(kiln_tensor_read_npy("b.npy", KILN_NO_TYPE, &tensor));
  CHECK_OK(kiln_tensor_array(tensor, &array));
  CHECK(array.type == KILN_U16);
  CHECK_OK(kiln_free(tensor));

  array = array_of(x, KILN_F32, 2, shape);
  array.strides = strides;
  CHECK_FAILS(kiln_array_write_npy(&array, "s.npy"), KILN_INVALID_ARGUMENT, "not row-major");
  array.strides = NULL;
  array.bytes = 15;
  CHECK_FAILS(kiln_array_write_npy(&array, "s.npy"), KILN_INVALID_ARGUMENT, "fewer bytes");
  array.data = NULL;
  CHECK_FAILS(kiln_array_write_npy(&array, "s.npy"), KILN_INVALID_ARGUMENT, "no data");
}

static void reads_safetensors(void) {
  const char header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}";
  const uint64_t length = strlen(header);
  FILE* file = fopen("m.safetensors", "wb");
  CHECK(file != NULL && fwrite(&length, 8, 1, file) == 1 && fwrite(header, length, 1, file) == 1 &&
        fwrite(x, 16, 1, file) == 1 && fclose(file) == 0);
  kiln_safetensors* opened;
  kiln_tensor* w;
  kiln_array array;
  CHECK_OK(kiln_safetensors_open("m.safetensors", &opened));
  CHECK(kiln_safetensors_count(opened) == 1 && strcmp(kiln_safetensors_name(opened, 0), "w") == 0);
  CHECK(kiln_safetensors_name(opened, 1) == NULL && kiln_safetensors_count(NULL) == 0);
  CHECK_OK(kiln_safetensors_get(opened, "w", &w));
  CHECK_FAILS(kiln_safetensors_get(opened, "v", &w), KILN_NOT_FOUND, "has no tensor `v`");
  CHECK_OK(kiln_free(opened));
  CHECK_OK(kiln_tensor_array(w, &array)); /* it keeps the file */
  CHECK(array.flags == 0 && array.type == KILN_F32 && memcmp(array.data, x, 16) == 0);
  CHECK_OK(kiln_free(w));
  CHECK_FAILS(kiln_safetensors_open("x.npy", &opened), KILN_INVALID_ARGUMENT, "x.npy: ");
}

int main(void) {
  takes_dlpack();
  refuses_dlpack();
  gives_dlpack();
  reads_npy();
  reads_safetensors();
  return failures > 0;
}
