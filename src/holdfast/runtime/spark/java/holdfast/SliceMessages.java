package holdfast;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;

/**
 * The record batches of some parts of slice files, in order, each checked against its checksum.
 *
 * Files are read some megabytes at a time, as a slice may be larger than memory.
 */
class SliceMessages {
    private static final long PIECE = 4L << 20;
    private static final int[] NONE = new int[0];

    private final List files;
    private final Schema expected;
    private int nextFile;
    private String path;
    private FileChannel channel;
    private List parts;
    private int nextPart;
    private ArrowBuf piece;
    private long start;
    private long end;
    private List known;
    private Schema stored;
    private int[] places;
    private int[] skipped;

    SliceMessages(List files, StructType schema, int columns) {
        this.files = files;
        StructType kept =
            new StructType((StructField[]) Arrays.copyOf(schema.fields(), columns));
        this.expected = ArrowUtils.toArrowSchema(kept, "UTC", true, false, false);
    }

    /** The next record batch, which the caller closes; null at the end. */
    ArrowRecordBatch next() throws IOException {
        while (this.parts == null || this.nextPart == this.parts.size()) {
            if (this.nextFile == this.files.size()) return null;
            open((Map) this.files.get(this.nextFile++));
        }
        List part = (List) this.parts.get(this.nextPart);
        long offset = number(part, 1);
        int size = (int) number(part, 2);
        if (offset < this.start || offset + size > this.end) read(offset);
        this.nextPart++;
        long at = offset - this.start;
        check(this.piece.nioBuffer(at, size), offset, number(part, 3));
        this.skipped = part.size() == 4 ? NONE : rest(part);
        ByteBuffer head = this.piece.nioBuffer(at, size).order(ByteOrder.LITTLE_ENDIAN);
        int length = head.getInt(4);
        head.position(8);
        Message message = Message.getRootAsMessage(head);
        ArrowBuf body = this.piece.slice(at + 8 + length, size - 8 - length);
        body.getReferenceManager().retain();
        ArrowRecordBatch batch = MessageSerializer.deserializeRecordBatch(message, body);
        if (batch.getLength() != (int) number(part, 0)) {
            int rows = batch.getLength();
            batch.close();
            throw new IOException("slice file has " + rows + " rows at byte " + offset
                + ", its record says " + part.get(0) + ": " + this.path);
        }
        return batch;
    }

    /** Of the record batch that came last: its columns, */
    Schema schema() {
        return this.stored;
    }

    /** which of them each wanted column is, */
    int[] places() {
        return this.places;
    }

    /** and the rows of it to leave out. */
    int[] skipped() {
        return this.skipped;
    }

    private static long number(List numbers, int place) {
        return ((Number) numbers.get(place)).longValue();
    }

    private static int[] rest(List part) {
        int[] found = new int[part.size() - 4];
        for (int i = 0; i < found.length; i++) found[i] = (int) number(part, 4 + i);
        return found;
    }

    private void open(Map file) throws IOException {
        close();
        this.path = (String) file.get("path");
        this.parts = (List) file.get("parts");
        this.nextPart = 0;
        try {
            this.channel = FileChannel.open(Paths.get(this.path, new String[0]),
                StandardOpenOption.READ);
        } catch (java.nio.file.NoSuchFileException missing) {
            throw new IOException("slice file is missing or empty: " + this.path, missing);
        }
        List described = (List) file.get("schema");
        if (!described.equals(this.known)) learn(described);
    }

    /** Most files of a boundary have the same schema, to the byte: it is read once. */
    private void learn(List described) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate((int) number(described, 0));
        fill(bytes, 0L);
        bytes.flip();
        check((ByteBuffer) bytes.duplicate(), 0L, number(described, 1));
        bytes.order(ByteOrder.LITTLE_ENDIAN).position(8);
        this.stored = MessageSerializer.deserializeSchema(Message.getRootAsMessage(bytes));
        List wanted = this.expected.getFields();
        List there = this.stored.getFields();
        int[] found = new int[wanted.size()];
        for (int i = 0; i < found.length; i++) {
            Field field = (Field) wanted.get(i);
            found[i] = -1;
            for (int j = 0; j < there.size(); j++) {
                if (((Field) there.get(j)).getName().equals(field.getName())) found[i] = j;
            }
            if (found[i] < 0 || !same(field, (Field) there.get(found[i]))) {
                throw new IOException("slice file has other columns than " + field + ": "
                    + this.stored + " in " + this.path);
            }
        }
        this.places = found;
        this.known = described;
    }

    /** Whether two columns have the same layout; which values may be null is no part of it. */
    private static boolean same(Field one, Field other) {
        List mine = one.getChildren();
        List theirs = other.getChildren();
        if (!one.getType().equals(other.getType()) || mine.size() != theirs.size()) return false;
        for (int i = 0; i < mine.size(); i++) {
            if (!same((Field) mine.get(i), (Field) theirs.get(i))) return false;
        }
        return true;
    }

    /** Read the part at an offset, and those that follow it closely. */
    private void read(long offset) throws IOException {
        release();
        long end = offset;
        for (int i = this.nextPart; i < this.parts.size(); i++) {
            List part = (List) this.parts.get(i);
            long after = number(part, 1) + number(part, 2);
            if (i > this.nextPart && (number(part, 1) != end || after - offset > PIECE)) break;
            end = after;
        }
        ArrowBuf piece = ArrowUtils.rootAllocator().buffer(end - offset);
        this.piece = piece;
        this.start = offset;
        this.end = end;
        fill(piece.nioBuffer(0L, (int) (end - offset)), offset);
    }

    private void fill(ByteBuffer target, long at) throws IOException {
        while (target.hasRemaining()) {
            int read = this.channel.read(target, at);
            if (read < 0) throw new EOFException("slice file is torn: " + this.path);
            at += read;
        }
    }

    private void check(ByteBuffer bytes, long offset, long expected) throws IOException {
        int size = bytes.remaining();
        CRC32 crc = new CRC32();
        crc.update(bytes);
        if (crc.getValue() != expected) {
            throw new IOException("slice file was altered: bytes " + offset + ".."
                + (offset + size) + " do not fit their checksum: " + this.path);
        }
    }

    private void release() {
        if (this.piece != null) this.piece.close();
        this.piece = null;
        this.start = this.end = 0L;
    }

    void close() {
        release();
        try {
            if (this.channel != null) this.channel.close();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        this.channel = null;
    }
}
