package holdfast;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.util.Arrays;
import java.util.UUID;
import java.util.zip.CRC32;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;

/** One Arrow IPC stream: a schema message, one record batch per key group, the end mark. */
class SliceFile {
    private static final byte[] END = {-1, -1, -1, -1, 0, 0, 0, 0};
    private static final int BUFFER = 1 << 20;

    private final StructType schema;
    private final RowStore store;
    private final int boundary;
    private final CRC32 crc = new CRC32();
    private final StringBuilder told = new StringBuilder();

    SliceFile(StructType schema, RowStore store, int boundary) {
        this.schema = schema;
        this.store = store;
        this.boundary = boundary;
    }

    /** Write it, wait until it is on disk, describe it. */
    String write(File folder, String prefix) throws IOException {
        String name = name(prefix);
        folder.mkdirs();
        FileOutputStream file = new FileOutputStream(new File(folder, name));
        try {
            write(file, name);
            file.getFD().sync();
        } finally {
            file.close();
        }
        return this.told.append("]}").toString();
    }

    /** Keep it in memory, or write it if that would be too much, and describe it. */
    String hold(File folder, String prefix) throws IOException {
        File path = new File(folder, name(prefix));
        ByteArrayOutputStream file = new ByteArrayOutputStream(1 << 13);
        write(file, path.getName());
        byte[] content = file.toByteArray();
        if (!Held.put(path.getPath(), content)) Held.write(path, content);
        return this.told.append("]}").toString();
    }

    private static String name(String prefix) {
        return prefix + UUID.randomUUID().toString().substring(0, 8) + ".arrow";
    }

    private void write(OutputStream file, String name) throws IOException {
        StructType kept = new StructType(
            (StructField[]) Arrays.copyOf(this.schema.fields(), this.store.columns()));
        Schema arrow = ArrowUtils.toArrowSchema(kept, "UTC", true, false, false);
        Bytes pending = new Bytes();
        MessageSerializer.serialize(new WriteChannel(Channels.newChannel(pending)), arrow);
        long offset = pending.size();
        this.told.append("{\"name\":\"").append(name).append("\",\"schema_size\":").append(offset)
            .append(",\"schema_crc\":").append(pending.crc(this.crc)).append(",\"parts\":[");
        RecordBatches batches = RecordBatches.of(kept, arrow, this.store);
        try {
            long[] rows = this.store.sorted(this.boundary);
            int start = 0;
            for (int group = 0; group < RowStore.GROUPS; group++) {
                int count = this.store.count(this.boundary, group);
                if (count == 0) continue;
                batches.encode(rows, start, start + count);
                describe(group, count, offset, batches, start > 0);
                offset += batches.size();
                start += count;
                pending.write(batches.bytes(), batches.first(), batches.size());
                if (pending.size() > BUFFER) pending.drain(file);
            }
        } finally {
            batches.close();
        }
        pending.write(END, 0, END.length);
        pending.drain(file);
    }

    private void describe(int group, int rows, long offset, RecordBatches batches, boolean more) {
        this.crc.reset();
        this.crc.update(batches.bytes(), batches.first(), batches.size());
        this.told.append(more ? ",{" : "{").append("\"group\":").append(group)
            .append(",\"rows\":").append(rows)
            .append(",\"offset\":").append(offset)
            .append(",\"size\":").append(batches.size())
            .append(",\"crc\":").append(this.crc.getValue())
            .append(",\"digest\":")
            .append(Long.toUnsignedString(this.store.digest(this.boundary, group)))
            .append('}');
    }

    private static class Bytes extends ByteArrayOutputStream {
        Bytes() {
            super(1 << 13);
        }

        long crc(CRC32 crc) {
            crc.reset();
            crc.update(this.buf, 0, this.count);
            return crc.getValue();
        }

        void drain(OutputStream file) throws IOException {
            file.write(this.buf, 0, this.count);
            reset();
        }
    }
}
